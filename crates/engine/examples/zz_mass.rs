use perdura_engine::*;
use std::sync::Arc;
use std::time::Instant;
fn rss() -> u64 {
    let s = std::fs::read_to_string("/proc/self/status").unwrap();
    s.lines().find(|l| l.starts_with("RssAnon")).unwrap().split_whitespace().nth(1).unwrap().parse().unwrap()
}
fn main() {
    let n: usize = 1_000_000;
    let dir = "/dev/shm/zz_mass";
    let _ = std::fs::remove_dir_all(dir);
    std::fs::create_dir_all(dir).unwrap();
    let medium =
        FileMedium::open(std::path::Path::new(dir), MediumOptions { emulate: true, ..Default::default() }).unwrap();
    let engine = Engine::open(Arc::new(medium), Config::default()).unwrap();
    let table = engine.create_table("t", b"").unwrap();
    let mut s = engine.session(Isolation::RepeatableRead);
    let row = [7u8; 64];
    for round in 0..2 {
        let t = Instant::now();
        let rids: Vec<_> = (0..n).map(|_| s.insert(&table, &row).unwrap()).collect();
        let w = t.elapsed();
        s.commit().unwrap();
        println!("round {round} insert {:?} commit {:?}", w, t.elapsed() - w);
        for _ in 0..2 {
            let m0 = rss();
            let t = Instant::now();
            s.start_statement();
            for rid in &rids {
                s.update(&table, *rid, &[9u8; 64]).unwrap();
            }
            let w = t.elapsed();
            let m1 = rss();
            s.commit().unwrap();
            println!("update {:?} commit {:?} dram {} KB", w, t.elapsed() - w, m1 - m0);
            let t = Instant::now();
            while engine.counters().purge_lag > 0 {
                engine.checkpoint().unwrap();
                engine.purge();
            }
            println!("purge {:?}, dram {} KB", t.elapsed(), rss() as i64 - m0 as i64);
        }
        let t = Instant::now();
        s.start_statement();
        for rid in &rids {
            s.update(&table, *rid, &[9u8; 64]).unwrap();
        }
        let w = t.elapsed();
        s.rollback().unwrap();
        println!("update {:?} rollback {:?}", w, t.elapsed() - w);
        let t = Instant::now();
        let mut scan = s.scan(&table);
        let mut c = 0u64;
        while let Some((_, r)) = scan.next(&s).unwrap() {
            c += unsafe { r.bytes() }[3] as u64;
        }
        println!("scan {:?} {c}", t.elapsed());
        s.commit().unwrap();
        let t = Instant::now();
        s.start_statement();
        for rid in &rids {
            s.delete(&table, *rid).unwrap();
        }
        let w = t.elapsed();
        s.commit().unwrap();
        println!("delete {:?} commit {:?}", w, t.elapsed() - w);
        let t = Instant::now();
        while engine.counters().purge_lag > 0 {
            engine.checkpoint().unwrap();
            engine.purge();
        }
        println!(
            "purge {:?} data {} free {}",
            t.elapsed(),
            engine.counters().data_bytes >> 20,
            engine.counters().free_bytes >> 20
        );
    }
    // small commits
    let t = Instant::now();
    for i in 0..200_000u32 {
        s.insert(&table, &i.to_le_bytes()).unwrap();
        s.commit().unwrap();
    }
    println!("insert+commit {:?} each", t.elapsed() / 200_000);
    let rid = s.insert(&table, b"hot").unwrap();
    s.commit().unwrap();
    let t = Instant::now();
    for i in 0..200_000u32 {
        s.start_statement();
        s.update(&table, rid, &i.to_le_bytes()).unwrap();
        s.commit().unwrap();
    }
    println!("update+commit {:?} each", t.elapsed() / 200_000);
    let _ = std::fs::remove_dir_all(dir);
}
