// Go-redis, unchanged, on a cluster of perdura-kv: a plain client of the leader, and a client in cluster mode.
// Arguments: the leader's address, then those of all replicas.
package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "go-redis:", err)
		os.Exit(1)
	}
}

func equal(what string, found, wanted any) {
	if fmt.Sprint(found) != fmt.Sprint(wanted) {
		must(fmt.Errorf("%s is %v, not %v", what, found, wanted))
	}
}

func value[T any](found T, err error) T {
	must(err)
	return found
}

func commands(client redis.UniversalClient, name string) {
	key := func(rest string) string { return "{go:" + name + "}:" + rest }
	must(client.Set(ctx, key("a"), "1", 0).Err())
	equal("INCR", value(client.Incr(ctx, key("a")).Result()), 2)
	equal("GET", value(client.Get(ctx, key("a")).Result()), "2")
	equal("SETNX", value(client.SetNX(ctx, key("a"), "x", 0).Result()), false)
	if _, err := client.Get(ctx, key("none")).Result(); err != redis.Nil {
		must(fmt.Errorf("a key that is not there: %v", err))
	}
	must(client.Set(ctx, key("t"), "1", time.Minute).Err())
	if ttl := value(client.TTL(ctx, key("t")).Result()); ttl < 55*time.Second || ttl > time.Minute {
		must(fmt.Errorf("TTL is %v", ttl))
	}
	must(client.MSet(ctx, key("m1"), "1", key("m2"), "2").Err())
	equal("MGET", value(client.MGet(ctx, key("m1"), key("m2"), key("none")).Result()), []any{"1", "2", nil})
	pipe := client.Pipeline()
	var counts []*redis.IntCmd
	for i := 0; i < 100; i++ {
		counts = append(counts, pipe.Incr(ctx, key("n")))
	}
	value(pipe.Exec(ctx))
	equal("the last INCR", counts[99].Val(), 100)
	transaction := client.TxPipeline()
	transaction.Set(ctx, key("x"), "1", 0)
	sum := transaction.IncrBy(ctx, key("x"), 41)
	value(transaction.Exec(ctx))
	equal("INCRBY", sum.Val(), 42)
	equal("DEL", value(client.Del(ctx, key("a"), key("t")).Result()), 2)

	// Each adds by WATCH: whatever fails is tried again.
	add := func(tx *redis.Tx) error {
		number, err := tx.Get(ctx, key("w")).Int()
		if err != nil && err != redis.Nil {
			return err
		}
		_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Set(ctx, key("w"), number+1, 0)
			return nil
		})
		return err
	}
	var group sync.WaitGroup
	for i := 0; i < 4; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for done := 0; done < 10; {
				if err := client.Watch(ctx, add, key("w")); err == nil {
					done++
				} else if err != redis.TxFailedErr {
					must(err)
				}
			}
		}()
	}
	group.Wait()
	equal("what all have added", value(client.Get(ctx, key("w")).Result()), "40")
}

func main() {
	leader, all := os.Args[1], os.Args[2:]
	for _, protocol := range []int{2, 3} {
		plain := redis.NewClient(&redis.Options{Addr: leader, Protocol: protocol})
		commands(plain, fmt.Sprintf("plain%d", protocol))
		found := 0
		keys := plain.Scan(ctx, 0, "{go:*", 10).Iterator()
		for keys.Next(ctx) {
			found++
		}
		must(keys.Err())
		if found < 5 {
			must(fmt.Errorf("SCAN finds %d keys", found))
		}
		cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: all, Protocol: protocol})
		commands(cluster, fmt.Sprintf("cluster%d", protocol))
		near := redis.NewClusterClient(&redis.ClusterOptions{Addrs: all, Protocol: protocol, ReadOnly: true})
		must(cluster.Set(ctx, "go:near", "1", 0).Err())
		for tries := 0; ; tries++ {
			if text, err := near.Get(ctx, "go:near").Result(); err == nil && text == "1" {
				break
			} else if tries > 100 {
				must(fmt.Errorf("a replica does not have the key: %q %v", text, err))
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	fmt.Println("go-redis: ok")
}
