"""The study page: what a participant does there, and what an experimenter takes away."""

from chromium import Browser, find, press, until, value


def answer(browser: Browser, first: int, last: int) -> None:
    """Press keys for trials from the first to before the last."""
    for number in range(first, last):
        find(browser, f".aline-stimulus[data-trial='{number}'] canvas")
        press(browser, "f" if number % 3 else "j")


def linked(browser: Browser, link: str) -> str:
    """What a link on the page gives to whoever follows it."""
    until(lambda: value(browser, f"document.querySelector('{link}').href"))
    script = "const done = arguments[0]; fetch(document.querySelector('LINK').href)"
    return str(
        browser.execute_async_script(
            script.replace("LINK", link) + ".then((r) => r.text()).then(done)"
        )
    )
