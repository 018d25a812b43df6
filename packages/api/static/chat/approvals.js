// Pending approvals, shown below their conversation. Identical ones (same digest) share one card and one answer. A card
// is removed when its approval is answered anywhere: here, in another tab or from the command line.
import { call } from "./api.js";
import { el, formatJson } from "./dom.js";

const RISKS = {
  low: ["○", "Low risk"],
  medium: ["◐", "Medium risk"],
  high: ["▲", "High risk"],
  critical: ["◆", "Critical risk"],
  unknown: ["?", "Unknown risk"],
};
const NEEDS_CARE = new Set(["high", "critical", "unknown"]);
const POLL_MS = 1_000;

/** `actions`: send(op) returns its ref or null, speak(text), changed(had_focus), mayFocus(), isLive(). */
export function createApprovals(container, actions) {
  const pending = new Map();
  const cards = new Map();
  const sent = new Map();
  let session_id = null;
  let timer = null;
  let refreshing = false;

  const groupOf = (digest) => [...pending.values()].filter((approval) => approval.digest === digest);

  function add(approval) {
    if (pending.has(approval.id)) return;
    pending.set(approval.id, approval);
    const is_new = !cards.has(approval.digest);
    draw(approval.digest);
    if (is_new) {
      const [, risk_label] = RISKS[riskOf(approval)];
      actions.speak(`Approval needed: ${approval.brief || approval.tool}. ${risk_label}.`);
      if (NEEDS_CARE.has(riskOf(approval)) && actions.mayFocus()) cards.get(approval.digest).reject.focus();
    }
    timer ??= setInterval(tick, POLL_MS);
  }

  function remove(id) {
    const approval = pending.get(id);
    if (approval === undefined) return;
    pending.delete(id);
    draw(approval.digest);
    if (pending.size > 0) return;
    clearInterval(timer);
    timer = null;
  }

  function draw(digest) {
    const group = groupOf(digest);
    let card = cards.get(digest);
    if (group.length === 0) {
      const focused = card?.had_focus === true || card?.node.contains(document.activeElement) === true;
      card?.node.remove();
      cards.delete(digest);
      actions.changed(focused);
      return;
    }
    if (card === undefined) {
      card = makeCard(group[0], (reply, feedback) => answer(digest, reply, feedback));
      cards.set(digest, card);
      container.append(card.node);
    }
    card.times.textContent = group.length === 1 ? "" : `×${group.length}`;
    countDown(card, group);
    actions.changed(false);
  }

  function answer(digest, reply, feedback) {
    const card = cards.get(digest);
    const feedback_field = reply.response === "reject" && feedback !== "" ? { feedback } : {};
    // A disabled control loses the focus.
    card.had_focus = card.node.contains(document.activeElement);
    card.disable(true);
    // One rule covers all of them, so only the first answer creates a rule.
    const others = reply.response === "approve_always" ? { response: "approve" } : reply;
    for (const [index, { id }] of groupOf(digest).entries()) {
      const ref = actions.send({
        op: "approve",
        id,
        ...(index === 0 ? reply : others),
        digest,
        ...feedback_field,
      });
      if (ref === null) {
        card.disable(false);
        card.problem.textContent = "Not connected. Your answer was not sent.";
        return;
      }
      sent.set(ref, { id, digest });
    }
  }

  function tick() {
    for (const [digest, card] of cards) countDown(card, groupOf(digest));
    if (!document.hidden && actions.isLive()) void refresh();
  }

  /** Approvals of sub-agents are shown in the conversation that started them. */
  function belongsToSession(id) {
    return id === session_id || (id ?? "").startsWith(`${session_id}::agent::`);
  }

  /** Synchronizes with the pending approvals of the gateway, except for those that arrived during the request. */
  async function refresh() {
    if (session_id === null || refreshing) return;
    refreshing = true;
    const requested_session = session_id;
    const known = [...pending.keys()];
    try {
      const { items } = await call("GET", "/v1/approvals?status=pending&limit=500");
      if (requested_session !== session_id) return;
      const open_approvals = items.filter((approval) => belongsToSession(approval.session_id));
      const ids = new Set(open_approvals.map(({ id }) => id));
      for (const id of known) if (!ids.has(id)) remove(id);
      for (const approval of open_approvals) if (!known.includes(approval.id)) add(approval);
    } catch {
      // The status chip shows that the gateway is unreachable; attaching refreshes again.
    } finally {
      refreshing = false;
    }
  }

  return {
    refresh,
    watch(next) {
      session_id = next;
      for (const id of pending.keys()) remove(id);
    },
    receive({ kind, payload }) {
      if (kind === "approval.request")
        add({ ...payload, tool: payload.tool_name, input: payload.params, session_id });
      else if (kind === "approval.cancelled") remove(payload.id);
      else if (kind === "approval.response") void refresh();
    },
    /** Returns true when the op is the response to an answer that this page sent. */
    handleReply(op) {
      const answered = sent.get(op.ref);
      if (answered === undefined) return false;
      sent.delete(op.ref);
      if (op.op === "accepted" || op.code === "approval.closed") remove(answered.id);
      else {
        const card = cards.get(answered.digest);
        card?.disable(false);
        if (card !== undefined) card.problem.textContent = `${op.code}: ${op.message} ${op.fix}`;
      }
      return true;
    },
  };
}

function makeCard(approval, onAnswer) {
  const { tool, brief, reason, input, may_cover, changed } = approval;
  const risk = riskOf(approval);
  const [icon, risk_label] = RISKS[risk];
  const feedback = el("input", { type: "text", maxlength: "2000", placeholder: "Why not (optional)" });
  const button = (label, reply, properties = {}) =>
    el(
      "button",
      { type: "button", onclick: () => onAnswer(reply, feedback.value.trim()), ...properties },
      label,
    );
  const once = button(
    "Allow once",
    { response: "approve" },
    NEEDS_CARE.has(risk) ? {} : { class: "primary" },
  );
  const lasting = lastingAnswers(approval).map(({ label, reply, title }) => button(label, reply, { title }));
  const reject = button("Reject", { response: "reject" }, { class: "reject" });
  feedback.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !reject.disabled) onAnswer({ response: "reject" }, feedback.value.trim());
  });
  const times = el("span", { class: "times" });
  const left = el("span", { class: "left" });
  const problem = el("p", { class: "bad", role: "alert" });
  const title = el("h2", {}, "Approve ", el("code", {}, tool), " ", times);
  const node = el(
    "article",
    { class: `approval ${risk}`, role: "group", "aria-label": `Approval of ${tool}, ${risk_label}` },
    el(
      "header",
      {},
      title,
      el("span", { class: `risk ${risk}` }, el("span", { "aria-hidden": "true" }, icon), ` ${risk_label}`),
      left,
    ),
    // The default brief only repeats the arguments.
    brief && !brief.startsWith(`${tool} {`) ? el("p", { class: "brief" }, brief) : null,
    reason ? el("p", { class: "muted" }, reason) : null,
    changed?.length > 0 ? el("p", {}, `Changed since the last request: ${changed.join(", ")}`) : null,
    el("pre", { tabindex: "0", "aria-label": "The exact arguments" }, formatJson(input)),
    el("div", { class: "row" }, once, ...lasting),
    el(
      "div",
      { class: "row" },
      reject,
      el("label", { class: "field grow" }, el("span", { class: "sr" }, "Feedback when rejecting"), feedback),
    ),
    may_cover?.always?.length > 0
      ? el(
          "p",
          { class: "muted" },
          `“Always” lasts beyond this session, for calls of up to ${risk_label.toLowerCase()}, until the rule is removed.`,
        )
      : null,
    problem,
  );
  const controls = [once, ...lasting, reject, feedback];
  return {
    node,
    reject,
    times,
    left,
    problem,
    disable(off) {
      for (const control of controls) control.disabled = off;
    },
  };
}

/** The answers beyond this call that the gateway permits, with a sentence that says what each covers. */
function lastingAnswers({ tool, may_cover }) {
  const { session = [], always = [] } = may_cover ?? {};
  const answers = [];
  const add = (permitted, label, reply, title) => {
    if (permitted) answers.push({ label, reply, title });
  };
  add(
    session.includes("arguments"),
    "Same call in this session",
    { response: "approve_for_session" },
    "The same call with the same arguments runs without asking until this session ends.",
  );
  add(
    session.includes("tool"),
    "This tool in this session",
    { response: "approve_for_session", covers: "tool" },
    `${tool} runs without asking, whatever its arguments, until this session ends.`,
  );
  add(
    always.includes("tool"),
    "Always this tool",
    { response: "approve_always", covers: "tool" },
    `${tool} runs without asking in all sessions of this caller.`,
  );
  add(
    always.includes("server"),
    "Always this server",
    { response: "approve_always", covers: "server" },
    `All tools of the same server as ${tool} run without asking in all sessions of this caller.`,
  );
  return answers;
}

function countDown(card, group) {
  const soonest = Math.min(...group.map(({ expires_at }) => Date.parse(expires_at)));
  if (!Number.isFinite(soonest)) return;
  const seconds = Math.max(0, Math.ceil((soonest - Date.now()) / 1000));
  const text = seconds === 0 ? "Expired" : `${formatDuration(seconds)} left`;
  if (card.left.textContent !== text) card.left.textContent = text;
  if (seconds === 0) card.disable(true);
}

function formatDuration(seconds) {
  if (seconds < 100) return `${seconds} s`;
  if (seconds < 6_000) return `${Math.ceil(seconds / 60)} min`;
  return `${Math.ceil(seconds / 3_600)} h`;
}

function riskOf({ risk }) {
  return Object.hasOwn(RISKS, risk ?? "") ? risk : "unknown";
}
