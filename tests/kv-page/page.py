"""The page of a replica as a browser shows it.

usage: page.py PICTURES healthy URL...        of all replicas, each of which serves, while clients write
       page.py PICTURES bereft URL REPLICA    of the leader, after this replica was killed
"""

import json
import os
import sys

from playwright.sync_api import sync_playwright

WIDTHS = (400, 1400)
# Times that the pages of all replicas are read until one term holds for all of them.
LOOKS = 5
HOSTILE = "<img src=x onerror=document.title='caught'>"


def check(is_so, what):
    if not is_so:
        raise SystemExit(f"kv-page: error: {what}")


class View:
    """A page that is open, and what it complains of and asks for."""

    def __init__(self, browser, url, **options):
        self.url, self.complaints, self.asked = url, [], []
        self.page = browser.new_page(**options)
        self.page.on("console", lambda message: self.note(message.type, message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(url)
        self.page.wait_for_selector("#own tbody tr")

    def note(self, kind, text):
        if kind == "error":
            self.complaints.append(text)

    def own(self):
        """The rows about the replica itself, by name."""
        rows = self.page.locator("#own tbody tr").all()
        return {row.locator("td").nth(0).inner_text(): row.locator("td").nth(1).inner_text() for row in rows}

    def members(self):
        """The cells of each member: replica, role, two addresses, has up to, lag, state."""
        rows = self.page.locator("#members tbody tr").all()
        return [[cell.inner_text().strip() for cell in row.locator("td").all()] for row in rows]

    def drawn(self):
        """How many points of the picture of latencies are coloured."""
        return self.page.evaluate(
            """() => {
                const canvas = document.getElementById("heat");
                const bytes = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
                let count = 0;
                for (let at = 0; at < bytes.length; at += 4)
                    if (bytes[at + 2] > bytes[at] + 60 && bytes[at + 3]) count++;
                return count;
            }"""
        )

    def until(self, is_so, what):
        """Waits for what the page comes to show. Its rules for scripts forbid to wait inside of it."""
        for _ in range(100):
            if is_so():
                return
            self.page.wait_for_timeout(100)
        check(False, f"{self.url}: {what} does not come")

    def close(self):
        check(not self.complaints, f"{self.url} complains: {self.complaints}")
        foreign = [asked for asked in self.asked if not asked.startswith(self.url)]
        check(not foreign, f"{self.url} asks others: {foreign}")
        self.page.close()


def replica(browser, url):
    """The page of a replica that serves. Returns its role and term."""
    view = View(browser, url)
    own, members = view.own(), view.members()
    check(own["ready"] == "yes", f"{url}: {own}")
    check(own["role"] in ("leader", "follower") and int(own["term"]) > 0 and int(own["leader"]) > 0, f"{url}: {own}")
    check(int(own["committed"]) > 0 and int(own["applied"]) > 0, f"{url}: {own}")
    check(len(members) == 3, f"{url} shows {members}")
    leads = [member[0] for member in members if member[1] == "leader"]
    check(leads == [own["leader"]], f"{url}: {leads} lead, {own['leader']} is said to")
    for member in members:
        check(":" in member[2] and ":" in member[3], f"{url}: {member} without addresses")
    applied = int(own["applied"])
    view.until(lambda: int(view.own()["applied"]) > applied, "a higher index")
    view.close()
    return own["role"], own["term"]


def leader(browser, url):
    """What only the leader knows: how far the others are, and how long requests take."""
    view = View(browser, url)
    # On a busy machine a follower may be late for a moment.
    view.until(lambda: all(member[6] == "answers" for member in view.members()), "that all answer")
    for member in view.members():
        check(int(member[4]) > 0 and int(member[5]) >= 0, f"{url}: {member}")
    before = view.drawn()
    check(before > 0, f"{url}: no latency is drawn")
    shown = view.page.locator("#quantiles").inner_text()
    check("p50 " in shown and "p99 " in shown, f"{url}: quantiles {shown!r}")
    # Intervals of 5 s: another one is drawn soon.
    view.until(lambda: view.drawn() > before, "another interval of latencies")
    view.close()


def looks(browser, url, pictures):
    """Narrow and wide, light and dark: all fits the width, and there are pictures to look at."""
    grounds = set()
    for width in WIDTHS:
        for scheme in ("light", "dark"):
            view = View(browser, url, viewport={"width": width, "height": 1000}, color_scheme=scheme)
            found = view.page.evaluate("document.documentElement.scrollWidth")
            check(found <= width, f"{url}: {found} wide where there is room for {width}")
            grounds.add((scheme, view.page.evaluate("getComputedStyle(document.body).color")))
            view.page.screenshot(path=os.path.join(pictures, f"{width}-{scheme}.png"), full_page=True)
            view.close()
    check(len(grounds) == 2, f"{url}: light and dark are {grounds}")


def hostile(browser, url):
    """Texts of other replicas are shown, never taken for HTML."""
    view = View(browser, url)

    def answer(route):
        found = json.loads(route.fetch().text())
        found["state"].update(cluster=HOSTILE, version=HOSTILE, store=HOSTILE, role=HOSTILE)
        for member in found["state"]["members"]:
            member.update(peer=HOSTILE, client=HOSTILE, kind=HOSTILE, leads=False)
        route.fulfill(json=found)

    view.page.route("**/state", answer)
    view.until(lambda: HOSTILE in view.page.locator("#members").inner_text(), "the text")
    check(view.page.locator("img").count() == 0, f"{url}: a text became HTML")
    check(view.page.title() == "perdura-kv", f"{url}: a text was run")
    view.close()


def silent(browser, url):
    """A replica that does not answer is said not to; the last that was known stays."""
    view = View(browser, url)
    view.page.route("**/state", lambda route: route.abort())
    view.until(lambda: "does not answer" in view.page.locator("#said").inner_text(), "that it does not answer")
    check(len(view.members()) == 3, f"{url}: the members are gone")
    view.complaints = [text for text in view.complaints if "ERR_FAILED" not in text]
    view.close()


def leader_of_one_term(browser, urls):
    """The URL of the leader. The pages are read one after another: roles are compared only if no election came between."""
    for _ in range(LOOKS):
        roles, terms = zip(*(replica(browser, url) for url in urls))
        if len(set(terms)) == 1:
            check(sorted(roles) == ["follower", "follower", "leader"], f"roles in term {terms[0]} are {roles}")
            return urls[roles.index("leader")]
    check(False, f"elections came between {LOOKS} times, the last terms are {terms}")


def healthy(browser, pictures, urls):
    leads = leader_of_one_term(browser, urls)
    leader(browser, leads)
    looks(browser, leads, pictures)
    hostile(browser, leads)
    silent(browser, leads)


def bereft(browser, pictures, url, killed):
    view = View(browser, url)
    # It takes an election's time until a leader says who is silent.
    gone = lambda: any(member[0] == killed and member[6] == "silent" for member in view.members())
    view.until(gone, "that the killed one is silent")
    own, members = view.own(), view.members()
    check(own["role"] == "leader" and own["leader"] != killed, f"{url}: {own}")
    lags = {member[0]: member[4:6] for member in members}
    has, lag = lags[killed]
    check(has == "unknown" or int(lag) > 0, f"{url}: the killed one does not lag: {members}")
    view.page.screenshot(path=os.path.join(pictures, "bereft.png"), full_page=True)
    view.close()


def main():
    pictures, stage, *rest = sys.argv[1:]
    # Who is root has no sandbox.
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=options)
        if stage == "healthy":
            healthy(browser, pictures, rest)
        else:
            bereft(browser, pictures, *rest)
        browser.close()
    print(f"kv-page: {stage}: ok")


main()
