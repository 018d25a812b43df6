// Runs inside the page: accessibility checks, and what is visible or focused.

/** All visible text whose contrast with its background is below `limit`, except in disabled controls and options. */
function lowContrastTexts(limit) {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const luminance = (colors) => {
    for (const color of ["#ffffff", ...colors]) {
      canvas.fillStyle = color;
      canvas.fillRect(0, 0, 1, 1);
    }
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((value) => {
      const part = value / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    const owner = node.parentElement;
    if (node.textContent.trim() === "" || !owner.checkVisibility({ opacityProperty: true })) continue;
    if (owner.closest(":disabled, option") !== null) continue;
    const behind = [];
    for (let up = owner; up !== null; up = up.parentElement)
      behind.unshift(getComputedStyle(up).backgroundColor);
    const [a, b] = [luminance(behind), luminance([...behind, getComputedStyle(owner).color])];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < limit)
      found.push(`${ratio.toFixed(2)} ${owner.tagName}.${owner.className}: ${node.textContent}`);
  }
  return found;
}

/** Controls and regions without a name. */
function unnamed() {
  return [...document.querySelectorAll("button, input, select, textarea, a[href], [role]")]
    .filter((node) => node.checkVisibility())
    .filter((node) => {
      const labels = [...(node.labels ?? [])].map((label) => label.textContent);
      const text = node.tagName === "SELECT" ? "" : node.textContent;
      // Live regions may be empty until there is a change.
      const announces = /^(status|alert|log)$/.test(node.getAttribute("role") ?? "");
      return !announces && [node.ariaLabel, text, ...labels].every((name) => (name ?? "").trim() === "");
    })
    .map((node) => node.outerHTML);
}

function visible(selector) {
  return [...document.querySelectorAll(selector)].filter((node) => node.checkVisibility()).length;
}

function focused() {
  return document.activeElement.id || document.activeElement.textContent;
}

globalThis.checks = { lowContrastTexts, unnamed, visible, focused };
