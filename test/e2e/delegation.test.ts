/**
 * A plugin's token with two gateways on one PostgreSQL. Without a sandbox the token alone is enough: both gateways accept
 * it until its call ends. The token of a sandboxed process is accepted only from the listeners of that process.
 */
import { afterAll, beforeAll, expect } from "vitest";
import { startTestGateway, type TestGateway } from "../support/gateway/gateway.ts";
import { eventually } from "../support/gateway/processes.ts";
import { installAndBind, vaiProgram, writePluginFolder } from "../support/plugins/plugin-folder.ts";
import { startPostgres, type TestPostgres } from "../support/store/postgres.ts";
import { verifies } from "../support/verifies.ts";

let postgres: TestPostgres;
const gateways: TestGateway[] = [];
beforeAll(async () => {
  postgres = await startPostgres();
  for (let i = 0; i < 2; i++)
    gateways.push(
      await startTestGateway({
        env: { BACKPLANE_STORE_URL: postgres.url, BACKPLANE_SANDBOX: "0" },
      }),
    );
});
afterAll(async () => {
  for (const gateway of gateways) await gateway.dispose();
  await postgres.stop();
});

/** Reports its token reversed, so that it is not redacted, and waits to be cancelled. */
const TALKER = `async (call) => {
  const { delegation_token } = call.body.context.gateway;
  call.emit({ type: "progress", said: [...delegation_token].reverse().join("") });
  await new Promise((done) => { call.signal.addEventListener("abort", done); setTimeout(done, 60000); });
  return { status: "cancelled" };
}`;

/** Starts a call that waits, and returns the token that its process received. */
async function startCallForToken(gateway: TestGateway, name: string): Promise<{ id: string; token: string }> {
  const folder = writePluginFolder({
    package_id: `acme/${name}`,
    entrypoint: ["node", "./bin/plugin.mjs"],
    files: { "bin/plugin.mjs": vaiProgram(`acme/${name}`, TALKER) },
    exports: [
      {
        id: name,
        default_timeout_ms: 60_000,
        extra: '[exports.permissions]\ngateway_api_scopes = ["sessions:read"]',
      },
    ],
  });
  await installAndBind(gateway, folder, [name]);
  const { body } = await gateway.http<{ id: string }>("POST", "/v1/invocations", { export_id: name });
  const events = await fetch(`${gateway.url}/v1/invocations/${body.id}/events`, {
    headers: { authorization: `Bearer ${gateway.token}` },
  });
  const reader = events.body!.getReader();
  let token = "";
  for (let text = ""; token === ""; ) {
    text += Buffer.from((await reader.read()).value!).toString();
    const reversed = /"said":"([^"]+_gld_iav)"/.exec(text)?.[1];
    if (reversed !== undefined) token = reversed.split("").reverse().join("");
  }
  await reader.cancel();
  return { id: body.id, token };
}

verifies(
  "delegation.token",
  "two gateways accept a token while its call runs and reject it afterwards, and an open stream ends within a second",
  async () => {
    const [first, second] = gateways as [TestGateway, TestGateway];
    await first.http("POST", "/v1/sessions", { session_id: "shown" });
    const { id, token } = await startCallForToken(first, "talker");
    const authorization = `Bearer ${token}`;
    const requestStatus = async (gateway: TestGateway, path: string) =>
      (await gateway.http("GET", path, undefined, { authorization })).status;
    for (const gateway of [first, second]) {
      expect(await requestStatus(gateway, "/v1/sessions/shown")).toBe(200);
      expect(await requestStatus(gateway, "/v1/chains?session_id=shown")).toBe(403);
      expect(await requestStatus(gateway, "/v1/secrets")).toBe(403);
    }
    // A stream from the gateway that does not run the call.
    const stream = await fetch(`${second.url}/v1/sessions/shown/events`, { headers: { authorization } });
    expect(stream.status).toBe(200);
    const ended = stream.text().then(() => performance.now());

    await first.http("POST", `/v1/invocations/${id}:cancel`);
    await eventually(
      async () =>
        (await first.http<{ status: string }>("GET", `/v1/invocations/${id}`)).body.status === "cancelled",
      20_000,
      "the call has ended",
    );
    const since = performance.now();
    for (const gateway of [first, second])
      expect(await requestStatus(gateway, "/v1/sessions/shown")).toBe(401);
    expect((await ended) - since).toBeLessThan(1_000);
  },
  60_000,
);

verifies(
  "delegation.token",
  "the token of a sandboxed process is rejected from outside that process, on its own gateway and on another",
  async () => {
    const confined: TestGateway[] = [];
    try {
      for (let i = 0; i < 2; i++)
        confined.push(await startTestGateway({ env: { BACKPLANE_STORE_URL: postgres.url } }));
      const [first, second] = confined as [TestGateway, TestGateway];
      await first.http("POST", "/v1/sessions", { session_id: "shown-inside" });
      const { token } = await startCallForToken(first, "carrier");
      for (const gateway of [first, second]) {
        for (const more of [{}, { "backplane-listener": "guessed" }] as Record<string, string>[]) {
          const headers = { authorization: `Bearer ${token}`, ...more };
          const response = await gateway.http<{ error: { code: string; message: string } }>(
            "GET",
            "/v1/sessions/shown-inside",
            undefined,
            headers,
          );
          expect([response.status, response.body.error.code]).toEqual([401, "auth.invalid"]);
          expect(response.body.error.message).toContain("from the process of its own call");
        }
      }
    } finally {
      for (const gateway of confined) await gateway.dispose();
    }
  },
  60_000,
);
