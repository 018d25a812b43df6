// Draws the transcript: one article for each item. Streaming text is drawn once per frame, in its own article only.
import { blockNode, isMedia, mediaNode } from "./content.js";
import { el, formatJson } from "./dom.js";
import { markdown } from "./markdown.js";

const STATUS = { running: ["…", "running"], ok: ["✓", "ok"], error: ["✗", "failed"] };

/** `actions`: fork(entry_id), pin(entry_id, pinned), undo(), findRemedy(code), drawn() after each drawing. */
export function createView(log, actions) {
  const nodes = new Map();
  const dirty = new Set();
  let drawing = false;

  function scheduleDraw() {
    if (drawing) return;
    drawing = true;
    requestAnimationFrame(draw);
  }

  function draw() {
    drawing = false;
    for (const item of dirty) {
      const old = nodes.get(item);
      if (old === undefined) continue;
      const replacement = article(item, actions);
      keepOpen(old, replacement);
      old.replaceWith(replacement);
      nodes.set(item, replacement);
    }
    dirty.clear();
    actions.drawn();
  }

  return {
    scheduleDraw,
    added(item, next) {
      const node = article(item, actions);
      nodes.set(item, node);
      log.insertBefore(node, next === null ? null : (nodes.get(next) ?? null));
      scheduleDraw();
    },
    changed(item) {
      dirty.add(item);
      scheduleDraw();
    },
    removed(item) {
      nodes.get(item)?.remove();
      nodes.delete(item);
      dirty.delete(item);
    },
    clear() {
      nodes.clear();
      dirty.clear();
      log.replaceChildren();
    },
  };
}

/** Keeps details open. If they contain the focus, it moves to their summary. */
function keepOpen(old, replacement) {
  const details = old.querySelector("details");
  const new_details = replacement.querySelector("details");
  if (details !== null && new_details !== null) {
    new_details.open = details.open;
    if (details.contains(document.activeElement))
      queueMicrotask(() => new_details.querySelector("summary").focus());
  }
}

function article(item, actions) {
  switch (item.type) {
    case "user":
      return el(
        "article",
        { class: "item user", "aria-label": "You" },
        el("div", { class: "text plain" }, item.text),
        buttons(item, actions),
      );
    case "assistant":
      return el(
        "article",
        {
          class: "item assistant",
          "aria-label": "Assistant",
          "aria-busy": item.streaming ? "true" : null,
          "data-streaming": item.streaming,
        },
        el("div", { class: "text" }, markdown(item.text)),
        item.note === undefined ? null : el("p", { class: "note" }, `■ ${item.note}`),
        item.streaming ? null : buttons(item, actions),
      );
    case "thinking":
      return el(
        "article",
        { class: "item thinking", "aria-label": "Thinking" },
        el("details", {}, el("summary", {}, "Thinking"), el("div", { class: "text plain" }, item.text)),
      );
    case "tool":
      return toolCard(item);
    case "error":
      return errorCard(item, actions);
    default:
      return marker(item, actions);
  }
}

function buttons(item, actions) {
  if (!item.entry_id) return null;
  return el("div", { class: "actions" }, forkButton(item, actions), pinButton(item, actions));
}

function forkButton({ entry_id }, actions) {
  return el(
    "button",
    {
      type: "button",
      class: "quiet fork",
      title: "Start a new session with all messages up to here",
      onclick: () => actions.fork(entry_id),
    },
    "Fork from here",
  );
}

function pinButton({ entry_id, pinned = false }, actions) {
  return el(
    "button",
    {
      type: "button",
      class: pinned ? "quiet pin pinned" : "quiet pin",
      title: "A pinned message stays as it is when earlier messages are summarized",
      "aria-pressed": String(pinned),
      onclick: () => actions.pin(entry_id, !pinned),
    },
    pinned ? "Unpin" : "Pin",
  );
}

function toolCard(item) {
  const { id, name, args, status, display, kind, note, progress, content } = item;
  const [icon, status_label] = STATUS[status];
  const brief = status === "running" ? (progress?.status ?? "") : item.brief;
  const error_label = kind === "failed" ? "reported an error" : `${status_label}: ${kind}`;
  const problem = status === "error" && kind ? error_label : status_label;
  return el(
    "article",
    { class: `item tool ${status}`, "aria-label": `Tool ${name}, ${problem}`, "data-call": id },
    el(
      "details",
      {},
      el(
        "summary",
        {},
        el("span", { class: "icon", "aria-hidden": "true" }, icon),
        el("code", { class: "name" }, name),
        el("span", { class: "status" }, problem),
        note === undefined ? null : el("span", { class: "status" }, note),
        brief === "" ? null : el("span", { class: "brief" }, brief),
      ),
      el("h3", {}, "Arguments"),
      el("pre", { tabindex: "0" }, formatJson(args)),
      ...(display === null ? [] : [el("h3", {}, "Result"), ...resultNodes(item)]),
      ...failureNodes(item.failure),
      ...(progress?.output ? [el("h3", {}, "Output"), el("pre", { tabindex: "0" }, progress.output)] : []),
    ),
    ...(content ?? []).filter(isMedia).map(mediaNode),
  );
}

function resultNodes({ content, display, value }) {
  if (!content) return [displayNode(display)];
  const nodes = content.filter((block) => !isMedia(block)).map(blockNode);
  return value === undefined ? nodes : [...nodes, el("pre", { tabindex: "0" }, formatJson(value))];
}

/** The code and the last lines of stderr, as the model gets them. */
function failureNodes(failure) {
  if (failure === undefined) return [];
  const { code, plugin_code, retryable, stderr } = failure;
  const facts = [code, plugin_code, retryable ? "a retry may succeed" : null].filter(Boolean).join(", ");
  return [
    el("p", { class: "note" }, facts),
    ...(stderr ? [el("h3", {}, "stderr"), el("pre", { tabindex: "0" }, stderr)] : []),
  ];
}

function displayNode(display) {
  if (display.kind === "markdown") return el("div", { class: "text" }, markdown(display.markdown));
  return el(
    "pre",
    { tabindex: "0" },
    display.kind === "text" ? display.text : formatJson(display.data ?? display),
  );
}

/** Shows the fix of the error, or the remedy of its code. */
export function errorCard({ code, message, fix = "" }, actions) {
  const remedy = el("div", { class: "fix" }, markdown(fix));
  if (fix === "") void actions.findRemedy(code).then((text) => remedy.append(markdown(text)));
  return el(
    "article",
    { class: "item error", "aria-label": "Error" },
    el("p", {}, el("code", { class: "bad" }, code), ` ${message}`),
    remedy,
    el("p", {}, el("a", { href: `/docs/errors#${encodeURIComponent(code)}` }, "About this error")),
  );
}

function marker(item, actions) {
  const { of, tokens_before, tokens_after, summary } = item;
  if (of === "interrupted") return line("■ Interrupted");
  if (of === "reset") return line("The session was reset; the model no longer sees the messages above");
  const figures =
    tokens_before === undefined ? "" : `, from about ${tokens_before} to ${tokens_after} tokens`;
  const state = item.undone ? "A compaction was undone here" : `Earlier messages were summarized${figures}`;
  return el(
    "article",
    { class: "item marker", "aria-label": "Compaction" },
    el("details", {}, el("summary", {}, state), el("div", { class: "text" }, markdown(summary ?? ""))),
    item.undoable
      ? el("button", { type: "button", class: "quiet", onclick: () => actions.undo() }, "Undo compaction")
      : null,
  );
}

function line(text) {
  return el("article", { class: "item marker", "aria-label": "Note" }, el("p", {}, text));
}
