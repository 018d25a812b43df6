// The list of sessions, newest first, with a search by id. The fragment of the URL identifies the open session.
import { call } from "./api.js";
import { formatAge, el } from "./dom.js";

const PAGE = 100;
const AGENT = "::agent::";

export function createSidebar({ list, find, note }, onError) {
  let sessions = [];
  let current = null;

  function draw() {
    const query = find.value.trim().toLowerCase();
    const shown = sessions.filter(({ id }) => id.toLowerCase().includes(query));
    list.replaceChildren(...shown.map((session) => row(session, session.id === current)));
    if (sessions.length === 0) note.textContent = "There are no sessions yet.";
    else note.textContent = shown.length === 0 ? "No session id contains this text." : "";
  }

  async function refresh() {
    try {
      const page = await call("GET", `/api/sessions?limit=${PAGE}&workspace=default`);
      // Sessions of sub-agents belong to the kernel and accept no messages.
      sessions = page.sessions.filter(({ id }) => !id.includes(AGENT));
      draw();
    } catch (error) {
      onError(error);
    }
  }

  find.addEventListener("input", draw);
  setInterval(draw, 30_000);
  return {
    refresh,
    open(id) {
      current = id;
      draw();
    },
    /** Attaching may have created the open session. */
    attached() {
      if (!sessions.some((session) => session.id === current)) void refresh();
    },
  };
}

function row({ id, created_at, parent_session_id }, open) {
  const origin = parent_session_id ? ` · fork of ${parent_session_id}` : "";
  return el(
    "li",
    {},
    el(
      "a",
      { href: `#${encodeURIComponent(id)}`, "aria-current": open ? "true" : null },
      el("span", { class: "id" }, id),
      el(
        "time",
        { datetime: created_at, title: new Date(created_at).toLocaleString() },
        formatAge(created_at) + origin,
      ),
    ),
  );
}
