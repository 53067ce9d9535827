"""The page in a browser, without a network: what it shows is what the command line says."""

from __future__ import annotations

import gzip
import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from service.browsing import LLAMA, Open, number, visits
from service.conftest import ROOT, Server

Run = Callable[..., tuple[int, str, str]]
PAGE = ROOT / "sizer" / "service" / "page"
SERIOUS = ("serious", "critical")
TAB_NAMES = ("params", "memory", "fit", "serve", "train", "sweep", "compare", "design", "reconcile")


@pytest.mark.parametrize("name", ["gpt2-small", "mixtral-8x7b", "deepseek-v3", "t5-small"])
def test_a_preset_that_is_typed_is_counted(visit: Open, sizer_cli: Run, name: str) -> None:
    here = visit().open()

    here.choose(name)

    here.total(number(sizer_cli, name))
    here.page.wait_for_function("name => location.hash.includes(`model=${name}`)", arg=name)
    assert here.page.locator("#formula math").count() > 1


def test_the_list_is_searched_with_the_keyboard(visit: Open, sizer_cli: Run) -> None:
    here = visit().open()

    here.page.click("#model")
    here.page.fill("#model", "qwen3 8b")
    assert here.page.get_attribute("#model", "aria-expanded") == "true"
    here.page.press("#model", "ArrowDown")
    first = here.page.locator("#model-list [aria-selected=true]").get_attribute("data-name")
    here.page.press("#model", "Enter")

    here.total(number(sizer_cli, str(first)))


def test_sliders_and_numbers_change_the_sizes(visit: Open, sizer_cli: Run) -> None:
    here = visit().open("#model=gpt2-small")
    sizes = here.page.locator("#sliders [data-field=n_layers]")

    sizes.locator("[type=range]").press("ArrowRight")
    here.total(number(sizer_cli, "gpt2-small", "--set", "n_layers=13"))
    sizes.locator("[type=range]").press("PageUp")
    here.total(number(sizer_cli, "gpt2-small", "--set", "n_layers=21"))
    # Dragged to the end it is eight times the model's own.
    sizes.locator("[type=range]").evaluate("e => { e.value = 1000; e.dispatchEvent(new Event('input')) }")
    here.total(number(sizer_cli, "gpt2-small", "--set", "n_layers=96"))
    here.page.fill("#size-d_model", "1,600")
    here.page.fill("#size-n_layers", "48")
    error = here.page.locator("#error-n_layers, #error-d_model").filter(has_text=re.compile("1600|768"))
    error.first.wait_for()

    here.page.click("#reset")
    here.total(number(sizer_cli, "gpt2-small"))


def test_an_error_is_shown_beside_its_input(visit: Open, sizer_cli: Run) -> None:
    here = visit().open("#model=llama-3-8b")

    here.page.fill("#size-n_heads", "33")
    code, _, said = sizer_cli("count", "llama-3-8b", "--set", "n_heads=33")
    shown = here.page.locator("#error-n_heads")
    shown.wait_for()

    assert code == 2
    assert str(shown.text_content()) in said
    assert here.page.get_attribute("#size-n_heads", "aria-invalid") == "true"
    here.page.fill("#size-n_heads", "64")
    here.total(number(sizer_cli, "llama-3-8b", "--set", "n_heads=64"))
    assert not shown.is_visible()

    there = visit().open("#model=llama-3-8b&set.n_heads=33")
    there.page.locator("#error-n_heads").filter(has_text="33").wait_for()
    there.page.fill("#size-n_heads", "16")
    there.total(number(sizer_cli, "llama-3-8b", "--set", "n_heads=16"))


# A tab and its options in the address -> what is copied as JSON, and the command that says the same.
TABS = [
    ("#model=gpt2-small&set.n_layers=24", lambda d: d, "count gpt2-small --set n_layers=24"),
    (
        "#model=llama-3-8b&tab=memory&memory.batch_size=2",
        lambda d: d["train"],
        "memory llama-3-8b --batch-size 2 --seq-len 4096",
    ),
    (
        "#model=llama-3-8b&tab=memory&run.seq_len=8192&memory.dtype=fp8",
        lambda d: d["infer"],
        "memory llama-3-8b --mode infer --seq-len 8192 --dtype fp8",
    ),
    (
        "#model=llama-3-8b&tab=fit&run.on=rtx-4090",
        lambda d: d["fit"],
        "fit llama-3-8b --on rtx-4090 --gpus 1 --mode infer --batch-size 1 --seq-len 4096",
    ),
    (
        "#model=llama-3-70b&tab=fit&fit.gpus=2&fit.tp=2&fit.max_gpus=4",
        lambda d: d["plan"],
        "plan llama-3-70b --on h100-sxm5-80gb --max-gpus 4 --seq-len 4096",
    ),
    (
        "#model=llama-3-8b&tab=train&train.tokens=15T&train.gpus=1024&train.mfu=0.4",
        lambda d: d,
        "train llama-3-8b --tokens 15T --gpus 1024 --mfu 0.4 --on h100-sxm5-80gb --seq-len 4096",
    ),
    (
        "#model=gpt2-small&tab=compare&compare.with=gpt2-medium&compare.and=llama-3-8b",
        lambda d: d,
        "compare gpt2-small gpt2-medium llama-3-8b --all",
    ),
    (
        "#model=gpt2-small&set.n_layers=24&set.n_ctx=2048&tab=compare&compare.with=gpt2-medium&compare.and=",
        lambda d: d,
        "compare gpt2-small:n_layers=24,n_ctx=2048 gpt2-medium --all",
    ),
    (
        "#model=llama-3-8b&set.n_layers=16&tab=serve&serve.batch_size=32&serve.inter_token=20&run.on=h200-sxm",
        lambda d: d,
        "roofline llama-3-8b --set n_layers=16 --on h200-sxm --batch-size 32 --inter-token 20",
    ),
    (
        "#model=gpt2-small&set.d_model=1536&tab=sweep&sweep.vary=n_layers%3D12:48:12&sweep.and=n_heads%3D12,24,7",
        lambda d: d,
        "sweep gpt2-small --set d_model=1536 n_layers=12:48:12 n_heads=12,24,7 --what params",
    ),
    (
        "#model=llama-3-8b&tab=sweep&sweep.vary=dtype%3Dbf16,fp8&sweep.and=seq_len%3D1024:65536:*2&sweep.what=kv_cache",
        lambda d: d,
        "sweep llama-3-8b dtype=bf16,fp8 seq_len=1024:65536:*2 --what kv_cache",
    ),
    (
        "#model=gpt2-small&tab=reconcile&reconcile.number=163,037,184",
        lambda d: d,
        "reconcile gpt2-small 163,037,184",
    ),
    ("#model=gpt2-small&tab=reconcile&reconcile.number=117M", lambda d: d, "reconcile gpt2-small 117M"),
    ("#model=llama-3-8b&tab=reconcile", lambda d: d, "reconcile llama-3-8b 8.03B"),
    (
        "#model=llama-3-8b&set.n_layers=16&tab=design&design.params=3B&design.for=d_model",
        lambda d: d["solve"],
        "solve llama-3-8b --set n_layers=16 --params 3B --for d_model --d-head 128 --top 8",
    ),
    (
        "#model=llama-3-8b&tab=design&design.params=3B",
        lambda d: d["solve"],
        "solve llama-3-8b --params 3B --for d_model,n_layers --d-head 128 --top 8",
    ),
    (
        "#model=llama-3-8b&tab=design&design.flops=5.76e23",
        lambda d: d["scaling"],
        "scaling --flops 5.76e23",
    ),
]


@pytest.mark.parametrize(("address", "part", "command"), TABS, ids=[row[2] for row in TABS])
def test_a_tab_says_what_the_command_says(
    visit: Open, sizer_cli: Run, address: str, part: Callable[[Any], Any], command: str
) -> None:
    here = visit().open(address)

    found = json.loads(here.copied("json"))

    assert here.page.locator(".problem:visible, #problem:visible").count() == 0
    assert part(found) == document(sizer_cli(*shlex.split(command), "--json")[1])


def document(text: str) -> Any:
    """A document, or a line of one for each point of a grid."""
    return json.loads(text) if text.startswith("{\n") else [json.loads(line) for line in text.splitlines()]


def test_a_changed_config_is_compared_as_it_is(visit: Open, sizer_cli: Run, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(LLAMA))
    here = visit().open("#tab=compare")
    here.drop(file.name, file.read_bytes())
    here.total(number(sizer_cli, str(file)))
    here.page.fill("#size-n_layers", "10")
    total = number(sizer_cli, str(file), "-L10")

    here.page.locator("#panel-compare tbody tr", has_text="params").filter(has_text=f"{total:,}").wait_for()

    words = shlex.split(here.copied("cli"))
    assert words[:4] == ["sizer", "compare", "config.json:n_layers=10", "qwen3-8b"]


def test_a_link_is_the_page(visit: Open, sizer_cli: Run, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(LLAMA))
    here = visit().open()
    here.drop("config.json", file.read_bytes())
    here.total(number(sizer_cli, str(file)))
    here.page.fill("#size-n_layers", "10")
    here.total(number(sizer_cli, str(file), "-L10"))
    here.page.select_option("#lang", "zh")

    link = here.copied("link")
    there = visit().open(link)

    there.total(number(sizer_cli, str(file), "-L10"))
    assert there.page.get_attribute("html", "lang") == "zh-Hans"
    assert there.page.input_value("#size-n_layers") == "10"
    command = shlex.split(there.copied("cli"))
    assert command == ["sizer", "count", "config.json", "--set", "n_layers=10"]


def test_a_token_is_asked_for_once(chromium: Any, start: Callable[..., Server], sizer_cli: Run) -> None:
    server = start(SIZER_TOKEN="s3cret")
    with visits(chromium, server.base) as begin:
        here = begin()
        here.page.goto(server.base)
        here.page.fill("#token", "s3cret")
        here.page.click("#token-dialog button")

        here.total(number(sizer_cli, "llama-3-8b"))
        here.page.wait_for_selector("html[data-ready]")
        assert here.page.locator("dialog[open]").count() == 0


def test_what_is_copied_and_saved(visit: Open, sizer_cli: Run) -> None:
    here = visit().open("#model=gpt2-small&set.n_layers=3")

    said: dict[str, object] = {}
    exec(here.copied("python").replace("print(", "said.append("), {"said": (lines := [])}, said)
    assert lines == [number(sizer_cli, "gpt2-small", "-L3")]
    assert "| embedding | 38,597,376 |" in here.copied("markdown")
    assert here.copied("latex").startswith("V D + C D + L \\left(")
    for kind, begin in (("svg", b"<svg"), ("png", b"\x89PNG"), ("csv", b"\xef\xbb\xbfComponent")):
        with here.page.expect_download() as download:
            here.page.click("#share summary")
            here.page.click(f"[data-save={kind}]")
        assert download.value.suggested_filename == f"gpt2-small-count.{kind}"
        assert Path(download.value.path()).read_bytes().startswith(begin)


def test_the_breakdown_is_entered(visit: Open) -> None:
    here = visit().open("#model=gpt2-small")

    here.page.locator(".treemap [role=button]").first.press("Enter")
    here.page.locator(".crumbs [aria-current]").filter(has_text="h × 12").wait_for()
    here.page.locator(".treemap [role=button]").first.click()
    here.page.locator(".crumbs [aria-current]").filter(has_text="mlp").wait_for()

    # 768 · 3,072 weights in each of twelve layers.
    assert here.page.locator(".treemap [aria-label*='c_fc.weight']").get_attribute("aria-label").split(":")[
        1
    ].startswith(f" {12 * 768 * 3072:,},")  # fmt: skip
    here.page.locator(".crumbs button").first.click()
    here.page.locator(".crumbs [aria-current]").filter(has_text="Model").wait_for()


def test_language_theme_and_a_phone(visit: Open) -> None:
    here = visit(color_scheme="light", viewport={"width": 390, "height": 844}).open("#model=mixtral-8x7b")
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    light = here.page.evaluate(ground)

    here.page.click("#theme")
    here.page.select_option("#lang", "zh")
    dark = here.page.evaluate(ground)
    assert (light, dark) == ("rgb(251, 250, 247)", "rgb(20, 23, 27)")
    assert here.page.text_content("#tab-memory") == "内存"
    for tab in reversed(TAB_NAMES):
        here.page.click(f"#tab-{tab}")
        here.page.wait_for_selector(f"#panel-{tab} table", state="attached")
        assert here.page.evaluate("document.documentElement.scrollWidth") == 390, tab
    assert visit(color_scheme="dark").open().page.evaluate(ground) == dark


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(visit: Open, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python", reason="the test of the page's access needs axe-core")
    script = (Path(axe.__file__).parent / "axe.min.js").read_text()
    here = visit(color_scheme=scheme, bypass_csp=True).open("#model=mixtral-8x7b")
    here.page.evaluate(script)
    found = []
    for tab in TAB_NAMES[::2] if scheme == "light" else TAB_NAMES[1::2]:
        here.page.click(f"#tab-{tab}")
        here.page.wait_for_selector(f"#panel-{tab} table", state="attached")
        result = here.page.evaluate("axe.run(document, {resultTypes: ['violations'], iframes: false})")
        found += [
            (tab, rule["id"], node["html"][:120], node["failureSummary"])
            for rule in result["violations"]
            if rule["impact"] in SERIOUS
            for node in rule["nodes"]
        ]

    assert found == []


def test_the_page_is_small_and_closed(server: Server) -> None:
    files = [file for file in PAGE.rglob("*") if file.is_file()]
    policy = server.client.get("/").headers["content-security-policy"]

    assert sum(len(gzip.compress(file.read_bytes(), 9)) for file in files) < 300_000
    assert "unsafe" not in policy
    assert "default-src 'self'" in policy
    scripts = "\n".join(file.read_text() for file in files if file.suffix == ".js")
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|\beval\(|new Function|https?://(?!www\.w3\.org)", scripts
    )
    assert all(len(file.read_text().splitlines()) < 300 for file in files if file.suffix in (".js", ".css"))


def test_both_languages_have_all_strings() -> None:
    def keys(language: str) -> set[str]:
        text = (PAGE / "js" / "strings" / f"{language}.js").read_text()
        return {key for key in re.findall(r"^  '(.+?)':", text, re.MULTILINE) if not key.startswith("said.")}

    assert keys("en") == keys("zh")
    used = {key for file in PAGE.rglob("*.js") for key in re.findall(r"\bt\('([\w.-]+)'", file.read_text())}
    used |= set(re.findall(r'data-t(?:-[a-z-]+)?="([\w.-]+)"', (PAGE / "index.html").read_text()))
    assert used <= keys("en")
