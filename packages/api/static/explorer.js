// The explorer: reads /openapi.json, lists the operations, sends requests. It talks to this gateway only, keeps the
// token in this tab's memory, and builds every node by hand, so nothing that a server sends is ever run as markup.
const byId = (id) => document.getElementById(id);
let token = "";
let api = null;

function make(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") node.className = value;
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const credential = () => (token === "" ? {} : { authorization: `Bearer ${token}` });

async function load() {
  const response = await fetch("/openapi.json", { headers: credential() });
  if (!response.ok) {
    const { error } = await response.json();
    api = null;
    byId("operations").replaceChildren();
    const main = byId("work");
    main.replaceChildren(
      make("h1", {}, "API explorer"),
      make("p", { class: "lead", role: "status" }, `${error.message} ${error.details?.fix ?? ""}`),
      make("p", {}, "Paste a token on the left, or run this and open the link that it prints:"),
      make("pre", {}, "backplane open"),
    );
    return;
  }
  api = await response.json();
  welcome();
  byId("who").textContent =
    token === "" ? "Using this browser's sign-in." : "Using the token, in this tab only.";
  list();
  openFromHash();
}

function welcome() {
  byId("work").replaceChildren(
    make("h1", {}, "API explorer"),
    make("p", { class: "lead", role: "status" }, `Version ${api.info.version}. ${api.info.description}`),
    make("p", {}, "Choose an operation; press / to filter them."),
  );
}

function operations() {
  const found = [];
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const [method, operation] of Object.entries(methods)) found.push({ path, method, ...operation });
  }
  return found;
}

function list() {
  const wanted = byId("filter").value.trim().toLowerCase();
  const current = location.hash.slice(1);
  const groups = api.tags.map(({ name }) => {
    const inside = operations().filter(
      (operation) =>
        operation.tags[0] === name &&
        `${operation.method} ${operation.path} ${operation.summary}`.toLowerCase().includes(wanted),
    );
    if (inside.length === 0) return null;
    return make(
      "section",
      {},
      make("h2", {}, name),
      make(
        "ul",
        {},
        ...inside.map((operation) =>
          make(
            "li",
            {},
            make(
              "a",
              {
                href: `#${operation.operationId}`,
                title: operation.summary,
                "aria-current": operation.operationId === current ? "true" : undefined,
              },
              make("span", { class: `verb ${operation.method}` }, operation.method.toUpperCase()),
              make("span", {}, operation.path),
            ),
          ),
        ),
      ),
    );
  });
  const shown = groups.filter((group) => group !== null);
  byId("operations").replaceChildren(
    ...(shown.length > 0 ? shown : [make("p", { class: "muted" }, "No operation matches.")]),
  );
}

function openFromHash() {
  if (api === null) return;
  const operation = operations().find((item) => item.operationId === location.hash.slice(1));
  if (operation) show(operation);
  list();
}

function show(operation) {
  const inputs = new Map();
  const scope = operation["x-backplane-scope"];
  const media = operation.requestBody?.content ?? {};
  const schema = media["application/json"]?.schema;
  const uploads = Object.keys(media).filter((type) => type !== "application/json");
  const body = schema ? make("textarea", { id: "body", spellcheck: "false" }) : null;
  if (body) body.value = JSON.stringify(example(schema, 0), null, 2);
  const file = uploads.length > 0 ? make("input", { type: "file" }) : null;
  const answer = make("div", { "aria-live": "polite" });
  const send = make("button", { type: "submit", class: "primary" }, "Send");
  const stop = make("button", { type: "button", hidden: "" }, "Stop");

  const form = make(
    "form",
    { class: "form card" },
    ...operation.parameters.map((parameter) => {
      const input = make("input", {
        autocomplete: "off",
        spellcheck: "false",
        required: parameter.required ? "" : undefined,
      });
      inputs.set(parameter, input);
      const hint = [
        parameter.in,
        parameter.required ? "required" : "",
        (parameter.schema.enum ?? []).join(" | "),
        parameter.description ?? "",
      ];
      return make(
        "label",
        {},
        make(
          "span",
          {},
          make("code", {}, parameter.name),
          make("span", { class: "hint" }, ` ${hint.filter(Boolean).join(" · ")}`),
        ),
        input,
      );
    }),
    body ? make("label", {}, "Body (JSON)", body) : null,
    file ? make("label", {}, `Or a file (${uploads.join(", ")})`, file) : null,
    make("div", { class: "row" }, send, stop, make("span", { class: "muted" }, "Ctrl+Enter sends")),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void request(operation, inputs, body, file, answer, send, stop);
  });
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });

  byId("work").replaceChildren(
    make("h1", {}, operation.summary),
    make(
      "p",
      { class: "row" },
      make("span", { class: `verb ${operation.method}` }, operation.method.toUpperCase()),
      make("span", { class: "path" }, operation.path),
      scope ? make("span", { class: "tag" }, `needs ${scope}`) : null,
      operation.security ? make("span", { class: "tag" }, "no credential") : null,
    ),
    operation.description ? make("p", { class: "muted" }, operation.description) : null,
    make("h2", {}, "Try it"),
    form,
    answer,
    make("h2", {}, "Shapes"),
    schema ? shape("Body", schema) : null,
    ...Object.entries(operation.responses).map(([status, response]) => {
      const content = Object.values(response.content ?? {})[0];
      return shape(`${status} · ${response.description}`, content?.schema);
    }),
  );
  document.title = `${operation.summary} · Backplane`;
}

function shape(title, schema) {
  if (!schema) return make("p", {}, title);
  return make(
    "details",
    {},
    make("summary", {}, title),
    make("pre", { tabindex: "0" }, JSON.stringify(resolve(schema, 0), null, 2)),
  );
}

async function request(operation, inputs, body, file, answer, send, stop) {
  let path = operation.path;
  const query = new URLSearchParams();
  const headers = { ...credential() };
  for (const [parameter, input] of inputs) {
    if (input.value === "") continue;
    if (parameter.in === "path") path = path.replace(`{${parameter.name}}`, encodeURIComponent(input.value));
    else if (parameter.in === "query") query.set(parameter.name, input.value);
    else headers[parameter.name] = input.value;
  }
  const options = { method: operation.method.toUpperCase(), headers };
  if (file?.files?.length > 0) {
    options.body = file.files[0];
    headers["content-type"] = "application/octet-stream";
  } else if (body) {
    options.body = body.value;
    headers["content-type"] = "application/json";
  }
  const abort = new AbortController();
  options.signal = abort.signal;
  stop.onclick = () => abort.abort();
  send.disabled = true;
  stop.hidden = false;
  const started = performance.now();
  const output = make("pre", { tabindex: "0" });
  try {
    const url = query.size > 0 ? `${path}?${query}` : path;
    const response = await fetch(url, options);
    const took = Math.round(performance.now() - started);
    answer.replaceChildren(
      make("h2", {}, "Answer"),
      make(
        "p",
        {},
        make("strong", { class: response.ok ? "good" : "bad" }, String(response.status)),
        make("span", { class: "muted" }, ` in ${took} ms · ${response.headers.get("x-request-id") ?? ""}`),
      ),
      output,
    );
    await print(response, output);
  } catch (error) {
    const text = abort.signal.aborted ? "Stopped." : `The gateway did not answer: ${error.message}`;
    if (output.isConnected) output.append(`\n${text}`);
    else answer.replaceChildren(make("p", { class: "bad" }, text));
  } finally {
    send.disabled = false;
    stop.hidden = true;
  }
}

async function print(response, output) {
  if ((response.headers.get("content-type") ?? "").startsWith("text/event-stream")) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let part = await reader.read(); !part.done; part = await reader.read()) output.append(part.value);
    return;
  }
  const text = await response.text();
  try {
    output.textContent = JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    output.textContent = text === "" ? "(empty)" : text;
  }
}

/** A schema with its references written out, down to a depth that a person can read. */
function resolve(schema, depth) {
  if (typeof schema !== "object" || schema === null) return schema;
  if (Array.isArray(schema)) return schema.map((item) => resolve(item, depth));
  if (schema.$ref)
    return depth > 4
      ? { $ref: schema.$ref }
      : resolve(api.components.schemas[schema.$ref.split("/").pop()], depth + 1);
  return Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, resolve(value, depth)]));
}

/** A body to start from: what is required, with the plainest values. */
function example(schema, depth) {
  if (schema.$ref) return example(api.components.schemas[schema.$ref.split("/").pop()], depth + 1);
  if ("default" in schema) return schema.default;
  if (schema.enum) return schema.enum[0];
  if ("const" in schema) return schema.const;
  const branch = schema.anyOf ?? schema.oneOf;
  if (branch) return example(branch[0], depth + 1);
  if (schema.type === "object" && depth < 6) {
    const required = new Set(schema.required ?? []);
    const names = Object.keys(schema.properties ?? {});
    const shown = names.filter((name) => required.has(name));
    const taken = shown.length > 0 ? shown : names.slice(0, 3);
    return Object.fromEntries(taken.map((name) => [name, example(schema.properties[name], depth + 1)]));
  }
  if (schema.type === "array") return [];
  if (schema.type === "integer" || schema.type === "number") return schema.minimum ?? 0;
  if (schema.type === "boolean") return false;
  return schema.type === "string" ? "" : {};
}

byId("sign").addEventListener("submit", (event) => {
  event.preventDefault();
  token = byId("token").value.trim();
  void load();
});
byId("filter").addEventListener("input", () => api && list());
byId("theme").addEventListener("change", (event) => {
  const theme = event.target.value;
  if (theme === "") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
});
addEventListener("hashchange", () => {
  openFromHash();
  byId("work").focus();
});
addEventListener("keydown", (event) => {
  if (event.key === "/" && !/INPUT|TEXTAREA|SELECT/.test(document.activeElement.tagName)) {
    event.preventDefault();
    byId("filter").focus();
  }
});
void load();
