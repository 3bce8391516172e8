"""The way in: the code of the address is taken out of it and fills the field, a press pairs, and a device can end."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from tests.web.kit import SECONDS, Web, axe, connected, holds

expect.set_options(timeout=SECONDS * 1000)


async def pairs(page: Page, code: str) -> None:
    await page.get_by_label("Pairing code").fill(code)
    await page.get_by_role("button", name="Pair").click()
    await connected(page)


@pytest.mark.parametrize(
    ("size", "scheme"), [("phone", "dark"), pytest.param("desktop", "light", marks=pytest.mark.soak)]
)
async def test_a_code_of_the_address_fills_the_field_and_pairs_by_a_press_only(
    web: Web, size: str, scheme: str
) -> None:
    code = web.code()
    async with web.context(size=size, scheme=scheme) as context:  # type: ignore[arg-type]  # of the parameters
        page = await context.new_page()
        await page.goto(f"{web.url}/#{code}")
        field = page.get_by_label("Pairing code")
        await expect(field).to_have_value(code.replace("-", ""))
        assert page.url == f"{web.url}/"
        seen = await page.evaluate("[location.href, document.referrer, document.title, history.length].join(' ')")
        assert code not in seen
        assert code.replace("-", "") not in seen
        assert not any(url.endswith("/pair") for url in web.requests)
        assert await axe(page) == []
        await page.keyboard.press("Tab")  # from the name to the button: the field is filled already
        await page.get_by_role("button", name="Pair").press("Enter")
        await connected(page)
        assert sum(url.endswith("/pair") for url in web.requests) == 1
        # A code that comes into a page that is paired leaves the address, too, and does nothing else.
        await page.evaluate("location.hash = 'ABCDEFGH'")
        await holds(page, "() => !location.href.includes('ABCD')")
        await expect(page.get_by_role("heading", level=1)).not_to_have_text("Pair this browser")


async def test_a_wrong_code_is_reported_and_a_new_one_may_be_typed_or_pasted(web: Web) -> None:
    async with web.context() as context:
        page = await context.new_page()
        await page.goto(web.url)
        field = page.get_by_label("Pairing code")
        await expect(field).to_be_focused()
        await page.keyboard.type("7kq4")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("alert")).to_have_text("The code has 8 characters.")
        await page.keyboard.type("-mr2w0O1I")  # letters that no code has are left out
        await expect(field).to_have_value("7KQ4MR2W")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("alert")).to_contain_text("wrong, used or expired")
        await expect(field).to_be_focused()
        await expect(field).to_have_value("")
        code = web.code()
        await field.fill(f"{web.url}/#{code}")
        await expect(field).to_have_value(code.replace("-", ""))
        await page.keyboard.press("Enter")
        await connected(page)


async def test_a_removed_device_shows_nothing_and_can_be_paired_again(web: Web) -> None:
    async with web.context() as context:
        page = await context.new_page()
        await page.goto(web.url)
        await pairs(page, web.code(("view",)))
        await page.evaluate("dragoman.app.draft('').value = 'of this device'")
        device = await page.evaluate("dragoman.app.host.value.device")
        assert web.server.pairing is not None
        web.server.pairing.remove(device)
        await expect(page.get_by_role("heading", level=1)).to_have_text("This device was removed.")
        assert await axe(page) == []
        assert await page.evaluate("[dragoman.app.rows.value.length, dragoman.app.draft('').value].join()") == "0,"
        await page.get_by_role("button", name="Pair again").click()
        await pairs(page, web.code())
        await expect(page.locator("main")).to_be_visible()


@pytest.mark.parametrize("size", ["phone", pytest.param("desktop", marks=pytest.mark.soak)])
async def test_devices_are_listed_added_and_removed_and_this_one_unpairs(web: Web, size: str) -> None:
    async with web.context(size=size) as context, web.context() as other:  # type: ignore[arg-type]  # of the parameter
        page, guest = await context.new_page(), await other.new_page()
        await page.goto(web.url)
        await page.get_by_label("Name of this device").fill("Ada's laptop")
        await pairs(page, web.code())
        await page.goto(f"{web.url}/#/devices")
        await expect(
            page.get_by_role("listitem").filter(has_text="Ada's laptop").filter(has_text="this one")
        ).to_have_count(1)
        await page.get_by_label("prompt", exact=True).uncheck()
        await page.get_by_role("button", name="Make a code").click()
        code = await page.locator("[data-code]").inner_text()
        await expect(page.get_by_role("timer")).to_contain_text("Valid once")
        assert await axe(page) == []
        await guest.goto(web.url)
        await guest.get_by_label("Name of this device").fill("Ada's phone")
        await pairs(guest, code)
        assert sorted(await guest.evaluate("dragoman.app.host.value.rights")) == ["answer", "view"]
        await page.goto(f"{web.url}/#/settings")
        await page.goto(f"{web.url}/#/devices")
        await page.get_by_role("button", name="Remove… Ada's phone").click()
        await page.get_by_role("dialog").get_by_role("button", name="Remove").click()
        await expect(guest.get_by_role("heading", level=1)).to_have_text("This device was removed.")
        await page.goto(f"{web.url}/#/settings")
        await page.get_by_role("button", name="Unpair this browser").click()
        await page.get_by_role("dialog").get_by_role("button", name="Unpair", exact=True).click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Pair this browser")
        assert await page.evaluate("indexedDB.databases().then(found => found.length)") in (0, 1)
