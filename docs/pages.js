// Names for screen readers where the theme has none, wide tables that the keyboard can scroll, and
// names of options that do not break at their hyphens.
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
  for (const words of document.querySelectorAll(".md-content :is(code, p)")) {
    if (!words.closest("pre")) wrapParts(words, /(?<![\w-])(--?[a-z][a-z0-9-]*)/, "option");
  }
}
function wrapParts(element, pattern, name) {
  const parts = element.children.length ? [] : element.textContent.split(pattern);
  if (parts.length < 2) return;
  element.replaceChildren(
    ...parts.map((part, index) => {
      if (index % 2 === 0) return part;
      const wrapped = document.createElement("span");
      wrapped.className = name;
      wrapped.textContent = part;
      return wrapped;
    }),
  );
}
new MutationObserver(nameLandmarks).observe(document.body, { childList: true, subtree: true });
nameLandmarks();
