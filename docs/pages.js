// Names for screen readers where the theme has none, and wide tables that the keyboard can scroll.
function nameLandmarks() {
  for (const nav of document.querySelectorAll("nav.md-nav[aria-labelledby]")) {
    const label = nav.querySelector(".md-nav__title")?.textContent.trim();
    nav.removeAttribute("aria-labelledby");
    if (label) nav.setAttribute("aria-label", label);
  }
  document.querySelectorAll("nav.md-code__nav").forEach((nav, index) => {
    nav.ariaLabel ??= `Code ${index + 1}`;
  });
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap")) table.tabIndex = 0;
}
new MutationObserver(nameLandmarks).observe(document.body, { childList: true, subtree: true });
nameLandmarks();
