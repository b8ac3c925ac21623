#!/usr/bin/env python3
"""The page that `audit --format html` and `compile --report` write, in a real browser without a window: what it draws, finds, sorts and selects is
compared with the model and with the JSON report; hostile names; keys and pointer; contrast of the colours; 5,000 nodes.

usage: report.py [--build DIR] [--table FILE.md] [-v]
"""
import argparse
import json
import os
import re
import sys
import tempfile
import time

import onnx
from onnx import TensorProto as T, helper

from browser import Browser, PageError, find
from harness import Fault, Tally, Tools

HURT = ["</script><script>window.hurt = 1</script>", "<!--<script>", "<img src=x onerror='window.hurt=1'>", "]]>&lt;&#60;", "\u2028\u2029\n\t\"'`${window.hurt=1}", "\U0001f600é" * 40,
        "n" * 20000, "__proto__", "constructor", "*/ // \\u003c", "=BAD=BYTES="]
FAULTS = (Fault, PageError)
CONTRAST = 4.5


def info(name, shape):
    return helper.make_tensor_value_info(name, T.FLOAT, shape)


def save(path, nodes, inputs, outputs):
    m = helper.make_model(helper.make_graph(nodes, "g", inputs, outputs), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    data = m.SerializeToString().replace(b"=BAD=BYTES=", b"\xff\xfe\xc0\xe2\x80\xed\xa0\x80\xe2</")  # of the same length
    with open(path, "wb") as f:
        f.write(data)


def hostile(path):
    """A chain whose nodes and values have the names of HURT."""
    nodes, last = [], "x"
    for i, name in enumerate(HURT):
        nodes.append(helper.make_node(["Relu", "Sin", "Abs"][i % 3], [last], ["v" + name], name=name))
        last = "v" + name
    nodes.append(helper.make_node("Neg", [last], ["y"], name="last"))
    save(path, nodes, [info("x", [1, 8])], [info("y", [1, 8])])


def layered(path, count):
    """About `count` nodes like a transformer's: branches, residuals, a mask that every layer reads."""
    nodes, x = [], "x"

    def add(op, ins, name, **attributes):
        nodes.append(helper.make_node(op, ins, [name + "/out"], name=name, **attributes))
        return name + "/out"

    for layer in range(10 ** 6):
        if len(nodes) >= count - 2:
            break
        p = f"/encoder/layer.{layer}"
        heads = []
        for h in range(3):
            q, k = add("Relu", [x], f"{p}/head{h}/query"), add("Sigmoid", [x], f"{p}/head{h}/key")
            k = add("Transpose", [k], f"{p}/head{h}/Transpose", perm=[0, 2, 1])
            scores = add("Add", [add("MatMul", [q, k], f"{p}/head{h}/MatMul"), "mask"], f"{p}/head{h}/Add")
            heads.append(add("MatMul", [add("Softmax", [scores], f"{p}/head{h}/Softmax"), x], f"{p}/head{h}/MatMul_1"))
        x = add("Add", [add("Sum", heads, f"{p}/Sum"), x], f"{p}/Add")
        x = add("Erf" if layer % 5 == 4 else "Tanh", [x], f"{p}/activation")
    nodes.append(helper.make_node("Identity", [x], ["y"], name="end"))
    save(path, nodes, [info("x", [1, 8, 16]), info("mask", [1, 8, 8])], [info("y", [1, 8, 16])])
    return len(nodes)


def wide(path, count):
    """One value that `count` nodes read, and one node that reads them all."""
    nodes = [helper.make_node("Relu", ["x"], [f"t{i}"], name=f"tower{i}") for i in range(count)]
    nodes.append(helper.make_node("Sum", [f"t{i}" for i in range(count)], ["y"], name="sum"))
    save(path, nodes, [info("x", [1, 8])], [info("y", [1, 8])])


def heavy(path):
    """Two convolutions that are worth the NPU, and what it lacks."""
    weights = helper.make_node("ConstantOfShape", ["shape"], ["w"], name="weights", value=helper.make_tensor("v", T.FLOAT, [1], [0.01]))
    shape = helper.make_node("Constant", [], ["shape"], name="shape", value_ints=[16, 16, 3, 3])
    chain = [helper.make_node("Conv", ["x", "w"], ["a"], name="conv1", pads=[1] * 4), helper.make_node("Relu", ["a"], ["b"], name="relu"),
             helper.make_node("Conv", ["b", "w"], ["c"], name="conv2", pads=[1] * 4), helper.make_node("Sin", ["c"], ["s"], name="sin"),
             helper.make_node("Identity", ["s"], ["y"], name="same")]
    save(path, [shape, weights, *chain], [info("x", [1, 16, 128, 128])], [info("y", [1, 16, 128, 128])])


def expect(what, got, want):
    if got != want:
        raise Fault(f"{what}: {got!r}, expected {want!r}"[:600])


def hold(what, true):
    if not true:
        raise Fault(what)


class Pages:
    def __init__(self, tools, browser, folder):
        self.tools, self.browser, self.folder = tools, browser, folder

    def audit(self, model, *targets):
        words = [w for t in targets for w in ("--target", t)]
        page, report = (os.path.splitext(model)[0] + e for e in (".html", ".json"))
        for form, out in (("html", page), ("json", report)):
            self.tools.call([self.tools.tessera, "audit", model, *words, "--format", form, "-o", out])
        return page, json.load(open(report, encoding="utf-8"))

    def plan(self, model, target):
        folder = os.path.splitext(model)[0] + "-plan"
        self.tools.call([self.tools.tessera, "compile", model, "--target", target, "--compile-to", "partition", "-q", "--report", folder])
        return os.path.join(folder, "plan.html"), json.load(open(os.path.join(folder, "plan.json"), encoding="utf-8"))

    def open(self, page, dark=False):
        """Drawn, with no message, and nothing asked of anybody; the seconds that it took."""
        b = self.browser
        seconds = b.open(page, dark)
        expect("state of the page", b.evaluate("document.documentElement.dataset.state"), "drawn")
        expect("messages of the page", b.messages, [])
        expect("requests of the page", b.requests, ["file://" + page])
        return seconds


def draws(p, page, report):
    """Each node of the model, the model's ends, an edge for each value that is read; no box upon another, every edge downwards."""
    p.open(page)
    graph = report["graph"]
    ends = len(graph["inputs"]) + len(graph["outputs"])
    expect("nodes", p.browser.evaluate("page.model.nodes.length"), len(graph["nodes"]) + ends)
    written = set(graph["inputs"]) | {v for n in graph["nodes"] for v in n["outputs"]}
    reads = sum(len({v for v in n["inputs"] if v in written}) for n in graph["nodes"]) + sum(v in written for v in graph["outputs"])
    expect("edges", p.browser.evaluate("page.model.edges.length"), reads)
    expect("boxes that lie upon another", p.browser.evaluate("""(() => {
        const {x, y} = page.layout, n = page.model.nodes.length, rows = new Map();
        for (let i = 0; i < n; ++i) rows.set(y[i], (rows.get(y[i]) || []).concat(x[i]));
        let bad = 0;
        for (const row of rows.values()) { row.sort((a, b) => a - b); for (let i = 1; i < row.length; ++i) bad += row[i] - row[i - 1] < NODE_WIDTH; }
        return bad; })()"""), 0)
    expect("edges that go up a rank", p.browser.evaluate("page.model.edges.filter((e) => page.layout.ranks[e.to] <= page.layout.ranks[e.from]).length"), 0)
    expect("nodes out of the drawing", p.browser.evaluate("""page.model.nodes.filter((_, i) => page.layout.x[i] < 0 || page.layout.x[i] > page.layout.width
        || page.layout.y[i] < 0 || page.layout.y[i] > page.layout.height).length"""), 0)


def fits(p, page, report):
    """A graph of any form fills a fair part of a window."""
    draws(p, page, report)
    ratio = p.browser.evaluate("page.layout.width / page.layout.height")
    hold(f"the drawing's width is {ratio:.2f} of its height", 0.2 < ratio < 8)


def colours(p, page, report):
    """Under every mode, device and target the legend counts every node once."""
    p.open(page)
    count, b = len(report["graph"]["nodes"]), p.browser
    for target in range(len(report.get("targets", [0]))):
        b.evaluate(f"(() => {{ const s = document.getElementById('target'); s.value = {target}; s.dispatchEvent(new Event('change')); }})()")
        for mode in b.evaluate("Object.keys(MODES)"):
            b.evaluate(f"document.querySelector('#modes input[value={mode}]').click()")
            for unit in b.evaluate("page.view.units"):
                b.evaluate(f"(() => {{ const s = document.getElementById('unit'); s.value = {json.dumps(unit)}; s.dispatchEvent(new Event('change')); }})()")
                told = b.evaluate("[...document.querySelectorAll('#legend b')].reduce((sum, e) => sum + Number(e.textContent), 0)")
                expect(f"nodes in the legend, {mode} on {unit}", told, count)
    expect("messages", b.messages, [])


def searches(p, page, report):
    """By names of nodes, operators and values, as a reader of the JSON would; from hit to hit by keys."""
    p.open(page)
    b, graph = p.browser, report["graph"]
    hays = [[n["node"], n["operator"]] + [graph["values"][v]["name"] for v in n["inputs"] + n["outputs"] if v >= 0] for n in graph["nodes"]]
    hays += [[graph["values"][v]["name"], end] for end in ("input", "output") for v in graph[end + "s"]]
    for words in ("sin", "RELU", "head1/matmul", "mask", "no such name", "layer.1/"):
        b.evaluate("document.getElementById('query').value = ''")
        b.evaluate("document.getElementById('graph').focus()")
        b.key("/")
        b.call("Input.insertText", text=words)
        expect(f"hits of '{words}'", b.evaluate("page.hits"), [i for i, hay in enumerate(hays) if words.lower() in "\n".join(hay).lower()])
    b.evaluate("document.getElementById('query').value = ''")
    b.call("Input.insertText", text="a")
    hits = b.evaluate("page.hits")
    for key, modifiers, at in (("Enter", 0, 0), ("Enter", 0, 1 % len(hits)), ("Enter", 8, 0), ("Enter", 8, -1)):
        b.key(key, modifiers, "\r")
        expect("selected hit", b.evaluate("page.selected"), [hits[at]])
    b.key("Escape")
    expect("hits after Escape", b.evaluate("[page.hits.length, document.activeElement.id]"), [0, "graph"])


def sorts(p, page, report):
    """The table of operators by time, and by name both ways; a row selects its node, by pointer and by keys."""
    p.open(page)
    b, rows = p.browser, report["targets"][0]["nodes"]
    head = "[...document.querySelectorAll('#panel [role=columnheader] button')].find((e) => e.textContent === '%s').click()"
    b.evaluate(head % "Time")
    expect("order by time", b.evaluate("page.table.rows.map((r) => r.fact.ns)"), sorted((r["cpu_ns"] for r in rows), reverse=True))
    for want in (False, True):
        b.evaluate(head % "Node")
        names = b.evaluate("page.table.rows.map((r) => r.name)")
        expect("order by name", names, sorted((r["node"] for r in rows), key=lambda n: n.encode("utf-16-be"), reverse=want))
    spot = b.evaluate("(() => { const r = page.table.body.querySelectorAll('.row')[2].getBoundingClientRect(); return [r.x + 20, r.y + r.height / 2]; })()")
    b.click(*spot)
    expect("node of the row", b.evaluate("page.selected"), b.evaluate("page.table.rows[2].nodes"))
    b.key("ArrowDown")
    expect("node of the next row", b.evaluate("page.selected"), b.evaluate("page.table.rows[3].nodes"))
    b.key("End")
    expect("node of the last row", b.evaluate("page.selected"), b.evaluate("page.table.rows[page.table.rows.length - 1].nodes"))
    hold("the last row is in the document", b.evaluate("Boolean(page.table.body.querySelector('.row[aria-selected=true]'))"))


def moves(p, page):
    """Pointer, wheel and keys move the window; a click selects the node that lies there."""
    p.open(page)
    b = p.browser
    state = "[page.graph.left, page.graph.top, page.graph.scale]"
    spot = "(() => { const g = page.graph, r = g.canvas.getBoundingClientRect(), x = page.layout.x[%d], y = page.layout.y[%d]; return [r.x + (x - g.left) * g.scale, r.y + (y - g.top) * g.scale]; })()"
    for node in (0, 5):
        b.evaluate(f"page.graph.show([{node}], true)")
        b.evaluate("page.select([], false)")
        b.click(*b.evaluate(spot % (node, node)))
        expect("node that was clicked", b.evaluate("page.selected"), [node])
        name = b.evaluate(f"page.model.nodes[{node}].name")
        expect("name in the details", b.evaluate("document.querySelector('#details h2 code').textContent"), name)
    before = b.evaluate(state)
    x, y = 300, 400
    b.mouse("mousePressed", x, y, button="left", clickCount=1)
    b.mouse("mouseMoved", x + 50, y - 30, button="left", buttons=1)
    b.mouse("mouseReleased", x + 50, y - 30, button="left", clickCount=1)
    after = b.evaluate(state)
    hold(f"a drag moves the drawing along: {before}, {after}", abs(before[0] - 50 / before[2] - after[0]) < 0.01 and abs(before[1] + 30 / before[2] - after[1]) < 0.01)
    at = "(() => { const g = page.graph, r = g.canvas.getBoundingClientRect(); return [g.left + (%d - r.x) / g.scale, g.top + (%d - r.y) / g.scale]; })()" % (x, y)
    fixed = b.evaluate(at)
    b.mouse("mouseWheel", x, y, deltaX=0, deltaY=-240)
    now = b.evaluate(at)
    hold("the wheel comes nearer", b.evaluate("page.graph.scale") > after[2])
    hold(f"what is under the pointer stays there: {fixed}, {now}", max(abs(fixed[0] - now[0]), abs(fixed[1] - now[1])) < 0.01)
    b.evaluate("document.getElementById('graph').focus()")
    for key in ("ArrowLeft", "ArrowUp", "+", "-", "0"):
        before = b.evaluate(state)
        b.key(key)
        hold(f"the key {key} moves the drawing", b.evaluate(state) != before)
    b.evaluate("page.select([page.model.edges[0].from], false)")
    b.key("ArrowDown", 8)
    hold("Shift and arrow down goes to a reader", b.evaluate("page.model.nodes[page.model.edges[0].from].outs.some((e) => page.model.edges[e].to === page.selected[0])"))
    b.key("?")
    expect("help is open", b.evaluate("document.getElementById('keys').open"), True)


def harmless(p, page, report):
    """Names are told as they are, and do nothing."""
    for dark in (False, True):
        p.open(page, dark)
        b = p.browser
        expect("names", b.evaluate("page.model.nodes.map((n) => n.name)"), [n["node"] for n in report["graph"]["nodes"]] + ["x", "y"])
        told = [n["node"] for n in report["graph"]["nodes"]]
        expect("names in the report but for bad bytes", [n for n in told if n in HURT], HURT[:-1])
        for i in range(len(told)):
            b.evaluate(f"page.select([{i}], true)")
            expect("name in the details", b.evaluate("document.querySelector('#details h2 code').textContent"), told[i])
        b.evaluate("[...document.querySelectorAll('#tabs button')].forEach((t) => t.click())")
        expect("scripts, images, frames", b.evaluate("['script', 'img', 'iframe', 'link'].map((t) => document.querySelectorAll(t).length)"), [2, 0, 0, 0])
        expect("harm", b.evaluate("window.hurt === undefined"), True)
        expect("messages", b.messages, [])


def policed(p, page):
    """The policy in the page's head refuses what is not the page's script."""
    p.open(page)
    b = p.browser
    b.evaluate("(() => { const s = document.createElement('script'); s.textContent = 'window.hurt = 1'; document.head.append(s); const i = new Image(); i.src = 'other.png'; document.body.append(i); })()")
    b.evaluate("new Promise((done) => setTimeout(done, 100))")
    expect("harm", b.evaluate("window.hurt === undefined"), True)
    hold("the script and the image are refused", sum("Content Security Policy" in m for m in b.messages) >= 2)


def placed(p, page, report):
    """Devices, segments and copies as plan.json has them; an edge of a copy leads from one memory to another."""
    p.open(page)
    b, groups, names = p.browser, report["groups"], [n["node"] for n in report["graph"]["nodes"]]
    want = {name: (groups[row["groups"][0]]["device"] if row["groups"] else "") for name, row in zip(names, report["nodes"])}
    expect("devices", b.evaluate("page.view.facts.slice(0, %d).map((f) => f.device)" % len(names)), [want[n] for n in names])
    hold("both devices are used", {"cpu", "npu:f16"} <= set(want.values()))
    expect("nodes of segments", b.evaluate("page.view.segments.map((s) => s.nodes.map((i) => page.model.nodes[i].name))"),
           [[n for n in names if n in s["nodes"]] for s in report["segments"]])
    copies = b.evaluate("page.view.copies.map((c) => c.edges.map((e) => [page.model.nodes[page.model.edges[e].from].name, page.model.nodes[page.model.edges[e].to].name]))")
    expect("edges of copies", copies, [[["x", "conv1"]], [["conv2", "sin"]]])
    expect("times", b.evaluate("page.view.facts.reduce((sum, f) => sum + f.ns, 0)"), sum(g["time_ns"] for g in groups))
    tabs = b.evaluate("[...document.querySelectorAll('#tabs button')].map((t) => t.textContent)")
    hold(f"tabs {tabs}", {f"Segments ({len(report['segments'])})", f"Copies ({len(report['copies'])})"} <= set(tabs))
    schedule = b.evaluate("page.view.schedule.map((s) => [s.unit, s.start, s.end, s.critical, s.nodes.map((i) => page.model.nodes[i].name)])")
    expect("devices of the schedule", [s[0] for s in schedule], [s["device"] for s in report["schedule"]])
    hold("the CPU's last stretch waits for the segment", report["schedule"][-1]["waits_for"] == 0 and report["schedule"][-1]["waits_ns"] > 0)
    b.evaluate("[...document.querySelectorAll('#tabs button')].find((t) => t.textContent === 'Schedule').click()")
    bars = b.evaluate("(() => { const bars = [...document.querySelectorAll('.bar')]; return bars.map((x) => { const r = x.getBoundingClientRect(), c = x.parentElement.getBoundingClientRect(); return [(r.left - c.left) / c.width, (r.right - c.left) / c.width]; }); })()")
    end = report["schedule_ns"]
    hold(f"bars {bars}", len(bars) == len(schedule) and all(abs(bar[0] - s[1] / end) < 0.02 and abs(bar[1] - s[2] / end) < 0.03 for bar, s in zip(bars, schedule)))
    b.evaluate("[...document.querySelectorAll('#tabs button')].find((t) => t.textContent.startsWith('Copies')).click()")
    b.evaluate("page.table.choose(1)")
    expect("selected by the copy's row", b.evaluate("page.selected.map((i) => page.model.nodes[i].name)"), ["conv2", "sin"])


def luminance(colour):
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    return sum(w * (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4) for w, c in zip((0.2126, 0.7152, 0.0722), parts))


def contrasts(p, page):
    """Ink on every fill, and the lines that mean something on the paper."""
    p.open(page)
    for theme, palette in p.browser.evaluate("PALETTES").items():
        def ratio(a, b):
            high, low = sorted((luminance(a), luminance(b)), reverse=True)
            return (high + 0.05) / (low + 0.05)

        for fill in [palette["paper"], palette["none"], palette["bad"], palette["rest"], *palette["category"], *palette["scale"], *palette["hull"]]:
            hold(f"{theme}: ink on {fill} has a contrast of {ratio(palette['ink'], fill):.2f}", ratio(palette["ink"], fill) >= CONTRAST)
        for line in ("line", "select", "copy"):
            hold(f"{theme}: {line} on the paper has a contrast of {ratio(palette[line], palette['paper']):.2f}", ratio(palette[line], palette["paper"]) >= 3)
    lights = []
    for dark in (False, True):
        p.open(page, dark)
        shown = re.findall(r"\d+", p.browser.evaluate("getComputedStyle(document.body).backgroundColor"))
        lights.append(sum(map(int, shown)))
        drawn = p.browser.evaluate("(page.graph.drawNow(), [...page.graph.context.getImageData(2, 2, 1, 1).data])")
        hold(f"the graph's ground {drawn} is the page's {shown}", drawn[:3] == list(map(int, shown[:3])))
    hold(f"the system's preference changes the theme: {lights}", lights[0] > 600 > 200 > lights[1])


FRAMES = """new Promise((done) => {
    const times = [], g = page.graph;
    let n = 0, last = performance.now();
    g.fit();
    const step = () => {
        const now = performance.now();
        times.push(now - last);
        last = now;
        if (++n > 80) { times.sort((a, b) => a - b); done([times[40], times[76]]); return; }
        if (n % 40 < 20) g.pan(9, 4); else g.zoom(n < 40 ? 1.12 : 0.9);
        requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
})"""


def large(p, model, count, rows):
    """Time to write and to load, and the work of a frame at three distances; loose bounds, since machines differ."""
    start = time.time()
    page, report = p.audit(model, "rk3588-sim", "host-x86-64")
    wrote = (time.time() - start) / 2
    draws(p, page, report)
    load = min(p.open(page) for _ in range(3))
    work = p.browser.evaluate("""[1, 4, 12].map((nearer) => { page.graph.fit(); page.graph.zoom(nearer); const start = performance.now();
        for (let i = 0; i < 20; ++i) { page.graph.pan(2, 1); page.graph.drawNow(); } return (performance.now() - start) / 20; })""")
    median, slow = p.browser.evaluate(FRAMES)
    rows.append(f"| {count} | {os.path.getsize(page) / 1e6:.2f} | {wrote:.2f} | {load:.2f} | {' / '.join(f'{w:.1f}' for w in work)} | {median:.1f} / {slow:.1f} |")
    hold(f"{count} nodes load in {load:.1f} s", load < 10)
    hold(f"a frame of {count} nodes takes {max(work):.0f} ms", max(work) < 100)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--build")
    ap.add_argument("--table", help="write the measures there, too")
    ap.add_argument("-v", "--verbose", action="store_true")
    args = ap.parse_args()
    tally = Tally(args.verbose)
    if not find():
        tally.fail("browser", "there is none; tools/setup/apt.sh installs chromium-headless-shell")
        return tally.finish()
    rows = ["| nodes | MB | s to audit and write | s to load | ms of drawing: far / nearer / near | ms a frame: median / 95 % |", "|---|---|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        p = Pages(Tools(args.build), browser, folder)
        at = lambda name: os.path.join(folder, name + ".onnx")

        def attempt(name, work, *arguments):
            tally.attempt(name, work, *arguments, faults=FAULTS)

        layered(at("small"), 60)
        hostile(at("hostile"))
        heavy(at("heavy"))
        page, report = p.audit(at("small"), "rk3588-sim", "host-x86-64")
        for work in (draws, colours, searches, sorts):
            attempt(work.__name__, work, p, page, report)
        for work in (moves, policed, contrasts):
            attempt(work.__name__, work, p, page)
        attempt("harmless", harmless, p, *p.audit(at("hostile"), "rk3588-sim"))
        wide(at("wide"), 400)
        attempt("fits wide", fits, p, *p.audit(at("wide"), "host-x86-64"))
        attempt("fits small", fits, p, *p.audit(at("small"), "host-x86-64"))
        page, report = p.plan(at("heavy"), "rk3588-sim")
        for work in (draws, colours, placed):
            attempt(f"{work.__name__} plan", work, p, page, report)
        for count in (500, 5000):
            count = layered(at("large"), count)
            attempt(f"{count} nodes", large, p, at("large"), count, rows)
    print("\n".join(rows))
    if args.table:
        with open(args.table, "w") as f:
            f.write("\n".join(rows) + "\n")
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
