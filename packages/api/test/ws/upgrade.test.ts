import { once } from "node:events";
import { connect as dial } from "node:net";
import { BackplaneError } from "@backplane/contract";
import type { Kernel } from "@backplane/ports";
import { afterEach, beforeEach, expect, test } from "vitest";
import { ADMIN_TOKEN } from "../support/start-api.ts";
import { startWs, type TestWs } from "../support/test-agent.ts";

let api: TestWs;
let failing = false;
beforeEach(async () => {
  api = await startWs({ wrap: acceptDelegated, api: { limits: { sockets: 3 } } });
});
afterEach(() => api.close());

/** Wraps the kernel to accept delegated tokens. A token that ends with `reads` has a scope for sessions. */
function acceptDelegated(kernel: Kernel): Kernel {
  return {
    ...kernel,
    keys: {
      ...kernel.keys,
      async authenticate(token) {
        if (failing) throw new BackplaneError("store.unavailable");
        if (!token.startsWith("vai_dlg_")) return await kernel.keys.authenticate(token);
        const scopes = token.endsWith("reads") ? (["sessions:read"] as const) : (["tools:invoke"] as const);
        return {
          actor: "inv_1",
          scope: { org_id: "org_local", project_id: "proj_default" },
          role: "user",
          scopes: [],
          admin: false,
          delegation: { invocation_id: "inv_1", scopes, grant: {} as never },
        };
      },
    },
  };
}

const tryConnect = (options: Parameters<TestWs["connect"]>[0]) =>
  api.connect(options).then(
    () => "opened",
    (error: Error & { status: number }) => `${error.status} ${error.message}`,
  );

test("rejects an upgrade request without a valid credential before the handshake", async () => {
  const key = await api.call("POST", "/v1/keys", { body: { name: "other", scopes: ["audit:read"] } });
  const port = new URL(api.url).port;
  expect(await tryConnect({ token: null })).toBe("401 auth.missing");
  expect(await tryConnect({ token: "wrong" })).toBe("401 auth.invalid");
  expect(await tryConnect({ token: null, protocols: ["backplane.v1", "bearer.wrong"] })).toBe(
    "401 auth.invalid",
  );
  expect(await tryConnect({ headers: { host: "evil.example" } })).toBe("403 auth.host");
  expect(await tryConnect({ headers: { origin: "http://evil.example" } })).toBe("403 auth.origin");
  expect(await tryConnect({ token: key.json.token })).toBe("403 auth.scope");
  expect(await tryConnect({ token: "vai_dlg_calls" })).toBe("403 auth.scope");
  expect(await tryConnect({ token: null, headers: { cookie: "backplane_session=none" } })).toBe(
    "401 auth.invalid",
  );
  expect(await tryConnect({ path: "/wss" })).toBe("404 route.not_found");
  expect(await tryConnect({ token: "vai_dlg_reads" })).toBe("opened");
  expect(await tryConnect({ headers: { origin: `http://127.0.0.1:${port}` } })).toBe("opened");
  const missing = await api.connect({ token: null }).catch((error: { headers: object }) => error);
  expect(missing).toMatchObject({ headers: { "www-authenticate": 'Bearer realm="backplane"' } });
});

test("accepts a token as a subprotocol and omits the token from the response", async () => {
  const remote = await api.connect({ token: null, protocols: [`bearer.${ADMIN_TOKEN}`, "backplane.v1"] });
  expect(remote.ws.protocol).toBe("backplane.v1");
});

test("accepts the console cookie only from our own origin", async () => {
  const login = await api.call("GET", `/login?code=${api.api.mintLoginCode()}`, { token: null });
  const cookie = String(login.headers["set-cookie"]).split(";")[0]!;
  const origin = api.url.replace("ws:", "http:");
  expect(await tryConnect({ token: null, headers: { cookie } })).toBe("403 auth.origin");
  expect(await tryConnect({ token: null, headers: { cookie, origin: "http://localhost:1" } })).toBe(
    "403 auth.origin",
  );
  expect(await tryConnect({ token: null, headers: { cookie, origin } })).toBe("opened");
});

test("rejects sockets over the limit with 429", async () => {
  const open = await Promise.all([api.connect(), api.connect(), api.connect()]);
  expect(await tryConnect({})).toBe("429 request.overloaded");
  open[0]!.ws.terminate();
  await expect.poll(() => tryConnect({})).toBe("opened");
});

test("treats other upgrades as ordinary requests and responds to an invalid handshake with the error envelope", async () => {
  const sendUpgrade = async (lines: string[]) => {
    const socket = dial(Number(new URL(api.url).port), "127.0.0.1");
    socket.end(`${["GET /healthz HTTP/1.1", "Host: 127.0.0.1", ...lines].join("\r\n")}\r\n\r\n`);
    let text = "";
    socket.on("data", (chunk) => (text += chunk));
    await once(socket, "close");
    return text;
  };
  const h2c = await sendUpgrade(["Connection: Upgrade, close", "Upgrade: h2c"]);
  expect(h2c).toMatch(/^HTTP\/1\.1 200 /);
  const broken = await sendUpgrade([
    "Connection: Upgrade",
    "Upgrade: websocket",
    `Authorization: Bearer ${ADMIN_TOKEN}`,
  ]);
  expect(broken).toMatch(/^HTTP\/1\.1 404 .*route\.not_found/s);
  const socket = dial(Number(new URL(api.url).port), "127.0.0.1");
  socket.write(
    `GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nAuthorization: Bearer ${ADMIN_TOKEN}\r\n\r\n`,
  );
  const [bytes] = (await once(socket, "data")) as [Buffer];
  expect(bytes.toString()).toMatch(/^HTTP\/1\.1 400 .*request\.invalid/s);
});

test("rejects operations of a revoked key and closes its socket at the next check", async () => {
  const key = await api.call("POST", "/v1/keys", {
    body: { name: "watcher", scopes: ["sessions:read", "sessions:write"] },
  });
  const socket = await api.connect({ token: key.json.token });
  const idle_socket = await api.connect({ token: key.json.token });
  socket.send({ op: "attach", session_id: "s" });
  await socket.next("attached");
  await api.call("DELETE", `/v1/keys/${key.json.key.id}`);
  socket.send({ op: "message", text: "hello" });
  expect(await socket.next("error")).toMatchObject({ of: "message", code: "auth.invalid" });
  api.clock.advance(30_000);
  expect((await Promise.all([socket.closed, idle_socket.closed])).map(({ code }) => code)).toEqual([
    4401, 4401,
  ]);
});

test("keeps sockets open while the store is unavailable", async () => {
  const key = await api.call("POST", "/v1/keys", { body: { name: "watcher", scopes: ["sessions:read"] } });
  const remote = await api.connect({ token: key.json.token });
  failing = true;
  api.clock.advance(30_000);
  remote.send({ op: "attach", session_id: "s" });
  expect(await remote.next("error")).toMatchObject({ code: "store.unavailable", retryable: true });
  failing = false;
  remote.send({ op: "heartbeat" });
  await remote.next("heartbeat");
});

test("closes a socket that is idle and silent", async () => {
  const silent = await api.connect();
  const pinging = await api.connect();
  for (const ms of [30_000, 30_000, 30_000]) {
    pinging.ws.ping();
    await once(pinging.ws, "pong");
    api.clock.advance(ms);
  }
  expect((await silent.closed).code).toBe(4408);
  expect(pinging.ws.readyState).toBe(pinging.ws.OPEN);
});
