// Messages outside the conversation: errors, shown until dismissed, and announcements for screen readers.
import { el } from "./dom.js";
import { errorCard } from "./view.js";

export function createNotices({ alert, spoken }, findRemedy) {
  const clearError = () => {
    alert.hidden = true;
  };
  const showError = (error) => {
    const close = el("button", { type: "button", class: "quiet", onclick: clearError }, "Dismiss");
    alert.replaceChildren(errorCard(error, { findRemedy }), close);
    alert.hidden = false;
  };
  const speak = (text) => {
    spoken.textContent = text;
  };
  return { clearError, showError, speak };
}
