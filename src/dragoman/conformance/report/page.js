"use strict";
const tiles = [...document.querySelectorAll(".tile")];
const cases = [...document.querySelectorAll(".case")];
const search = document.getElementById("search");

function show() {
  const wanted = new Set(tiles.filter((tile) => tile.ariaPressed === "true").map((tile) => tile.dataset.status));
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const each of cases) {
    const text = each.textContent.toLowerCase();
    each.hidden = !wanted.has(each.dataset.status) || !words.every((word) => text.includes(word));
  }
  for (const section of document.querySelectorAll("section")) {
    section.hidden = !section.querySelector(".case:not([hidden])");
  }
}

for (const tile of tiles) {
  tile.addEventListener("click", () => {
    tile.ariaPressed = tile.ariaPressed === "true" ? "false" : "true";
    show();
  });
}
search.addEventListener("input", show);
document.documentElement.dataset.ready = "yes";
