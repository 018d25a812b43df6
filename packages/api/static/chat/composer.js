// The message box: grows with its text, sends with Enter, recalls the last message, and offers examples.
import { el } from "./dom.js";

const EXAMPLES = [
  ["Get an echo", "Hello there"],
  [
    "Watch a slow answer stream",
    "/slow 150\n/say **Streaming** works: this text arrives piece by piece, and you can stop it with `Esc`.",
  ],
  ["Ask for approval, then run a sub-agent", '/tool agent {"goal": "Say hello from a sub-agent"}'],
  ["See a tool call fail", '/tool no_such_tool {"why": "to see the card"}'],
];

/** `send` returns whether the text was sent; `last` returns the previous message. */
export function createComposer({ form, message, examples }, { send, last }) {
  function setText(text) {
    message.value = text;
    message.style.height = "auto";
    message.style.height = `${Math.min(message.scrollHeight + 2, innerHeight * 0.4)}px`;
  }

  function submit() {
    const text = message.value.trim();
    if (text !== "" && send(text)) setText("");
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  message.addEventListener("input", () => setText(message.value));
  message.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      submit();
    } else if (event.key === "ArrowUp" && message.value === "") {
      setText(last());
      event.preventDefault();
    }
  });
  const example = ([label, text]) => {
    const onclick = () => {
      setText(text);
      message.focus();
    };
    return el(
      "li",
      {},
      el("button", { type: "button", onclick }, el("strong", {}, label), el("code", {}, text)),
    );
  };
  examples.append(...EXAMPLES.map(example));
  return {
    isEmpty: () => message.value === "",
    focus: () => message.focus(),
    /** Puts back a message that was not sent, unless the person has typed another one. */
    restore(text) {
      setText(message.value === "" ? text : message.value);
    },
  };
}
