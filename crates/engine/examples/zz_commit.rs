use perdura_engine::*;
use std::sync::Arc;
use std::time::Duration;
#[repr(C)]
struct Ts(i64, i64);
unsafe extern "C" {
    fn clock_gettime(id: i32, t: *mut Ts) -> i32;
}
fn cpu() -> Duration {
    let mut t = Ts(0, 0);
    unsafe { clock_gettime(3, &mut t) };
    Duration::new(t.0 as u64, t.1 as u32)
}
struct Instant(Duration);
impl Instant {
    fn now() -> Instant {
        Instant(cpu())
    }
    fn elapsed(&self) -> Duration {
        cpu() - self.0
    }
}
fn main() {
    let what = std::env::args().nth(1).unwrap_or("all".into());
    let bg = std::env::args().nth(2).is_some_and(|a| a == "bg");
    let dir = "/dev/shm/zz_commit";
    let _ = std::fs::remove_dir_all(dir);
    std::fs::create_dir_all(dir).unwrap();
    let medium =
        FileMedium::open(std::path::Path::new(dir), MediumOptions { emulate: true, ..Default::default() }).unwrap();
    let engine = Engine::open(Arc::new(medium), Config { background: bg, ..Config::default() }).unwrap();
    let table = engine.create_table("t", b"").unwrap();
    let mut s = engine.session(Isolation::RepeatableRead);
    let n = 300_000u32;
    for round in 0..4 {
        if what == "insert" || what == "all" {
            let t = Instant::now();
            for i in 0..n {
                s.insert(&table, &i.to_le_bytes()).unwrap();
                s.commit().unwrap();
            }
            println!("round {round} insert+commit {:?} each", t.elapsed() / n);
        }
        let hot = engine.create_table(&format!("hot{round}"), b"").unwrap();
        let rid = s.insert(&hot, b"hot").unwrap();
        s.commit().unwrap();
        if what == "update" || what == "all" {
            let t = Instant::now();
            for i in 0..n {
                s.start_statement();
                s.update(&hot, rid, &i.to_le_bytes()).unwrap();
                s.commit().unwrap();
            }
            println!("round {round} update+commit {:?} each", t.elapsed() / n);
        }
        if what == "scan" || what == "all" {
            let t = Instant::now();
            for i in 0..n {
                s.start_statement();
                let mut scan = s.scan_to_lock(&hot);
                let (rid, _) = scan.next(&s).unwrap().unwrap();
                s.lock_row(&hot, rid, LockMode::Exclusive).unwrap();
                s.read(&hot, rid, ReadView::Newest).unwrap();
                s.update(&hot, rid, &i.to_le_bytes()).unwrap();
                assert!(scan.next(&s).unwrap().is_none());
                drop(scan);
                s.commit().unwrap();
            }
            println!("round {round} scan+update+commit {:?} each", t.elapsed() / n);
        }
    }
    engine.close();
    let _ = std::fs::remove_dir_all(dir);
}
