"""redis-py, unchanged, on a cluster of perdura-kv: a plain client of the leader, and a client in cluster mode.

Arguments: the leader's address, then those of all replicas.
"""

import sys
import threading
import time

import redis
from redis.cluster import ClusterNode, RedisCluster


def equal(what, found, wanted):
    if found != wanted:
        sys.exit(f"redis-py: {what} is {found!r}, not {wanted!r}")


def commands(client, name):
    def key(rest):
        return f"{{py:{name}}}:{rest}"

    equal("SET", client.set(key("a"), "1"), True)
    equal("INCR", client.incr(key("a")), 2)
    equal("GET", client.get(key("a")), "2")
    equal("SET NX", client.set(key("a"), "x", nx=True), None)
    equal("SET GET", client.set(key("a"), "3", get=True), "2")
    equal("GET of nothing", client.get(key("none")), None)
    equal("SETEX", client.setex(key("t"), 60, "1"), True)
    equal("TTL", 55 <= client.ttl(key("t")) <= 60, True)
    equal("GETRANGE", client.getrange(key("a"), 0, -1), "3")
    equal("APPEND", client.append(key("a"), "4"), 2)
    equal("INCRBYFLOAT", client.incrbyfloat(key("f"), 0.5), 0.5)
    equal("MSET", client.mset({key("m1"): "1", key("m2"): "2"}), True)
    equal("MGET", client.mget(key("m1"), key("m2"), key("none")), ["1", "2", None])
    equal("TYPE", client.type(key("a")), "string")
    pipe = client.pipeline(transaction=False)
    for _ in range(100):
        pipe.incr(key("n"))
    equal("pipelined INCR", pipe.execute(), list(range(1, 101)))
    equal("DEL", client.delete(key("a"), key("t")), 2)
    equal("scan_iter", sorted(client.scan_iter(match="{py:" + name + "}*")), sorted(map(key, ["f", "m1", "m2", "n"])))
    try:
        client.incr(key("m1"), "x")
        sys.exit("redis-py: INCRBY takes a word")
    except redis.ResponseError as error:
        equal("the error", str(error), "value is not an integer or out of range")


def only_plain(client):
    equal("PING", client.ping(), True)
    equal("ECHO", client.echo("x"), "x")
    equal("CONFIG GET", client.config_get("appendonly"), {"appendonly": "yes"})
    equal("INFO", client.info("server")["redis_mode"], "cluster")
    equal("CLIENT SETNAME", (client.client_setname("me"), client.client_getname()), (True, "me"))
    equal("COMMAND COUNT", client.command_count() > 50, True)
    equal("WAIT", client.wait(2, 1000), 2)
    with client.pipeline() as pipe:
        pipe.set("py:x", "1").incrby("py:x", 41)
        equal("MULTI", pipe.execute(), [True, 42])

    def add():
        for _ in range(10):
            client.transaction(
                lambda pipe: (number := int(pipe.get("py:w") or 0), pipe.multi(), pipe.set("py:w", number + 1)), "py:w"
            )

    threads = [threading.Thread(target=add) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    equal("what all have added", client.get("py:w"), "40")
    equal("PERDURA.CAS", client.execute_command("PERDURA.CAS", "py:v", 0, "a") > 0, True)
    equal("PERDURA.CAS again", client.execute_command("PERDURA.CAS", "py:v", 0, "b"), None)
    equal("PERDURA.ONCE", [client.execute_command("PERDURA.ONCE", "py", 1, "INCR", "py:once") for _ in range(3)], [1, 1, 1])
    equal("ACL SETUSER", client.acl_setuser("py", enabled=True, passwords=["+pw"], keys=["py:*"], commands=["+get"]), True)
    host, port = leader.rsplit(":", 1)
    guest = redis.Redis(host, int(port), username="py", password="pw", decode_responses=True)
    equal("GET as another user", guest.get("py:w"), "40")
    try:
        guest.get("other")
        sys.exit("redis-py: a user reads what it may not")
    except redis.exceptions.NoPermissionError:
        pass
    equal("ACL DELUSER", client.acl_deluser("py"), 1)


leader, *replicas = sys.argv[1:]
for protocol in (2, 3):
    host, port = leader.rsplit(":", 1)
    plain = redis.Redis(host, int(port), protocol=protocol, decode_responses=True)
    plain.flushall()
    equal("DBSIZE", plain.dbsize(), 0)
    commands(plain, f"plain{protocol}")
    only_plain(plain)
    nodes = [ClusterNode(*one.rsplit(":", 1)) for one in replicas]
    cluster = RedisCluster(startup_nodes=nodes, protocol=protocol, decode_responses=True)
    commands(cluster, f"cluster{protocol}")
    near = RedisCluster(startup_nodes=nodes, protocol=protocol, decode_responses=True, read_from_replicas=True)
    cluster.set("py:near", "1")
    deadline = time.monotonic() + 5
    while near.get("py:near") != "1":
        equal("the time that a replica takes", time.monotonic() < deadline, True)
print("redis-py: ok")
