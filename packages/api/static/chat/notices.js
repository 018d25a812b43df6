// What the page says beside the conversation: trouble, shown until it is dismissed, and words for who listens.
import { el } from "./dom.js";
import { errorCard } from "./view.js";

export function createNotices({ alert, spoken }, remedyOf) {
  const hush = () => {
    alert.hidden = true;
  };
  const complain = (error) => {
    const close = el("button", { type: "button", class: "quiet", onclick: hush }, "Dismiss");
    alert.replaceChildren(errorCard(error, { remedyOf }), close);
    alert.hidden = false;
  };
  const speak = (text) => {
    spoken.textContent = text;
  };
  return { hush, complain, speak };
}
