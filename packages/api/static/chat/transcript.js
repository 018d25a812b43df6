// A conversation as a list of items, built from the events of `/ws`, independent of the page. Entries are deduplicated by
// id, so a replay and live events may overlap. Streamed text is replaced by the final entry.
//
// Types of items: user, thinking (live only), assistant (streaming until its end), tool, error, marker

/** A live event in the form of an entry, as in a replay. */
export function entryOf({ event, entry_id }) {
  const { kind, payload, ts } = event;
  if (kind === "session.replay.entry")
    return { id: entry_id, at: ts, kind: payload.kind, payload: payload.payload, live: {} };
  const toEntry = (of, body, live = {}) => ({ id: entry_id, at: ts, kind: of, payload: body, live });
  switch (kind) {
    case "user.message.received":
      return toEntry("message", { role: "user", content: payload.text });
    case "assistant.message.done":
      return toEntry("message", { role: "assistant", content: payload.content }, payload);
    case "tool.call.request":
      return toEntry("tool_call", payload);
    case "tool.call.result":
      return toEntry("tool_result", { ...payload, tool_call_id: payload.id });
    default:
      return toEntry("event", { name: kind, data: payload });
  }
}

const MAX_OUTPUT = 8_000;

export class Transcript {
  items = [];
  /** The last entry, after which a later attach resumes. */
  last = 0;
  running = false;
  run_id = null;
  #view;
  #tools = new Map();
  #streaming = null;
  #thinking = null;
  #interrupted = false;
  #compacted_at = null;

  /** `view` is notified of each item: added(item, next), changed(item), removed(item); and of state(). */
  constructor(view) {
    this.#view = view;
  }

  /** If an answer is still streaming, its whole text is sent again. */
  reattached() {
    if (this.#streaming === null) return;
    this.#remove(this.#streaming);
    this.#streaming = null;
  }

  receive(op) {
    if (op.entry_id !== undefined) {
      if (op.entry_id <= this.last) return;
      this.last = op.entry_id;
      this.#entry(entryOf(op));
      this.#view.state();
    } else if (op.event.kind === "assistant.message.delta") this.#delta(op.event);
    else if (op.event.kind === "llm.call.delta") this.#think(op.event.payload);
    else if (op.event.kind === "x.loop.tool.progress") this.#progress(op.event.payload);
  }

  /** All thinking of one model call is one item. */
  #think({ thinking, request_id }) {
    const current = this.#thinking;
    if (current !== null && current.request_id === request_id)
      return this.#change(current, { text: current.text + thinking });
    this.#thinking = { type: "thinking", text: thinking, request_id };
    this.#add(this.#thinking, this.#streaming);
  }

  /** Ends a run that has no final entry, for example after a crash of the gateway. */
  endRun({ code, message }) {
    if (!this.running) return;
    this.reattached();
    this.running = false;
    for (const tool of this.#tools.values())
      if (tool.status === "running")
        this.#change(tool, { status: "error", brief: "no outcome was recorded" });
    this.#add({ type: "error", code, message });
    this.#view.state();
  }

  /** Only the last compaction can be undone, and only while it is in effect. */
  setCompactionInEffect(in_effect) {
    const compactions = this.items.filter(({ of }) => of === "compaction");
    for (const item of compactions) {
      const last = item === compactions.at(-1);
      this.#change(item, { undoable: in_effect && last, undone: last ? !in_effect : item.undone });
    }
  }

  /** Marks the messages that compactions keep. `ids` is a set of entry ids. */
  setPinned(ids) {
    for (const item of this.items) {
      const pinned = item.entry_id != null && ids.has(item.entry_id);
      if ((item.pinned ?? false) !== pinned) this.#change(item, { pinned });
    }
  }

  lastUserText() {
    return this.items.findLast(({ type }) => type === "user")?.text ?? "";
  }

  #entry({ id, at, kind, payload, live }) {
    if (kind === "anchor") return this.#anchor(id, at, payload);
    // A compaction repeats recent entries after its anchor, with their original dates.
    if (this.#compacted_at !== null && at < this.#compacted_at) return;
    switch (kind) {
      case "message":
        return payload.role === "user" ? this.#user(id, at, payload) : this.#answer(id, at, payload, live);
      case "tool_call":
        return this.#call(id, payload);
      case "tool_result":
        return this.#result(payload);
      case "event":
        return this.#event(payload);
    }
  }

  #anchor(entry_id, at, { name, state }) {
    if (state?.kind === "compaction") {
      this.#compacted_at = at;
      const { summary, tokens_before, tokens_after } = state;
      this.#add({ type: "marker", of: "compaction", entry_id, summary, tokens_before, tokens_after });
    } else if (name === "session/start" && this.items.length > 0) {
      this.#add({ type: "marker", of: "reset", entry_id });
    }
  }

  #user(entry_id, at, { content }) {
    this.#interrupted = false;
    this.running = true;
    const item = { type: "user", entry_id, at, text: textOf(content) };
    // A message sent during an answer is placed before that answer.
    this.#add(item, this.#streaming);
  }

  #answer(entry_id, at, { content }, live) {
    const text = textOf(content);
    const stopped = this.#interrupted || live.status === "cancelled";
    this.running = live.status === "running";
    this.#interrupted = false;
    const final_fields = {
      entry_id,
      at,
      text,
      streaming: false,
      ...(stopped ? { note: "Interrupted" } : {}),
    };
    const current = this.#streaming;
    this.#streaming = null;
    if (text === "") {
      if (current !== null) this.#remove(current);
      if (stopped) this.#add({ type: "marker", of: "interrupted", entry_id });
    } else if (current !== null) this.#change(current, final_fields);
    else this.#add({ type: "assistant", ...final_fields });
  }

  #delta({ payload, ts }) {
    const { content, catch_up, iteration } = payload;
    let current = this.#streaming;
    if (current !== null && current.iteration !== iteration && catch_up !== true) {
      this.#change(current, { streaming: false });
      current = null;
    }
    if (current === null) {
      current = { type: "assistant", at: ts, text: content, iteration, streaming: true };
      this.#streaming = current;
      this.#add(current);
    } else this.#change(current, { text: catch_up === true ? content : current.text + content, iteration });
    if (!this.running) {
      this.running = true;
      this.#view.state();
    }
  }

  #call(entry_id, { id, name, args }) {
    const known = this.#tools.get(id);
    if (known !== undefined) return this.#change(known, { name, args });
    const item = { type: "tool", id, entry_id, name, args, status: "running", brief: "", display: null };
    this.#tools.set(id, item);
    this.#add(item);
  }

  /** Output arrives in chunks; the result repeats the end of the output. */
  #progress({ id, status, output = "" }) {
    const tool = this.#tools.get(id);
    if (tool?.status !== "running") return;
    const text = ((tool.progress?.output ?? "") + output).slice(-MAX_OUTPUT);
    this.#change(tool, { progress: { status: status ?? tool.progress?.status, output: text } });
  }

  #result({ tool_call_id, ok, content, value, error, envelope, status: note, failure, progress }) {
    if (!this.#tools.has(tool_call_id)) this.#call(null, { id: tool_call_id, name: "tool", args: {} });
    const display =
      envelope?.display ??
      (error !== undefined
        ? { kind: "text", text: error }
        : value === undefined
          ? null
          : { kind: "json", data: value });
    const brief = envelope?.brief ?? error ?? "";
    const status = ok === true ? "ok" : "error";
    const shown = { content: content ?? null, value, note, failure, progress };
    this.#change(this.#tools.get(tool_call_id), { status, brief, display, kind: envelope?.kind, ...shown });
  }

  #event({ name, data }) {
    switch (name) {
      case "tool.error": {
        const { id, kind, brief, detail } = data;
        const display = detail === undefined ? null : { kind: "json", data: detail };
        if (!this.#tools.has(id)) this.#call(null, { id, name: "tool", args: {} });
        return this.#change(this.#tools.get(id), { status: "error", kind, brief, display });
      }
      case "strategy.decide.request":
        this.run_id = data.state?.run_id ?? this.run_id;
        return;
      case "llm.call.response":
        return this.#textWithCalls(data);
      case "user.interrupt":
        this.#interrupted = this.running;
        return;
      case "kernel.error":
        return this.#add({ type: "error", code: data.detail?.code ?? "internal", message: data.message });
    }
  }

  /** The text that a model sends together with tool calls is only in this event. */
  #textWithCalls({ text = "", tool_calls = [] }) {
    if (tool_calls.length === 0) return;
    const current = this.#streaming;
    this.#streaming = null;
    if (current !== null && text !== "") this.#change(current, { text, streaming: false });
    else if (current !== null) this.#remove(current);
    else if (text !== "") {
      const first = tool_calls.map(({ id }) => this.#tools.get(id)).find((tool) => tool !== undefined);
      this.#add({ type: "assistant", text, streaming: false }, first ?? null);
    }
  }

  #add(item, next = null) {
    if (next === null) this.items.push(item);
    else this.items.splice(this.items.indexOf(next), 0, item);
    this.#view.added(item, next);
  }

  #change(item, fields) {
    Object.assign(item, fields);
    this.#view.changed(item);
  }

  #remove(item) {
    this.items.splice(this.items.indexOf(item), 1);
    this.#view.removed(item);
  }
}

function textOf(content) {
  if (typeof content === "string") return content;
  if (Array.isArray(content)) return content.map((part) => part?.text ?? "").join("");
  return content === null || content === undefined ? "" : JSON.stringify(content);
}
