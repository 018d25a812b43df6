/** A plugin's token with two gateways on one PostgreSQL: both know it, and both forget it when its call ends. */
import { afterAll, beforeAll, expect } from "vitest";
import { startTestGateway, type TestGateway } from "../support/gateway.ts";
import { eventually } from "../support/processes.ts";
import { installAndBind, vaiProgram, writePluginFolder } from "../support/plugin-folder.ts";
import { startPostgres, type TestPostgres } from "../support/postgres.ts";
import { verifies } from "../support/verifies.ts";

let postgres: TestPostgres;
const gateways: TestGateway[] = [];
beforeAll(async () => {
  postgres = await startPostgres();
  for (let i = 0; i < 2; i++)
    gateways.push(await startTestGateway({ env: { BACKPLANE_STORE_URL: postgres.url } }));
});
afterAll(async () => {
  for (const gateway of gateways) await gateway.dispose();
  await postgres.stop();
});

/** Tells its token backwards, so that nothing takes it out, and waits to be cancelled. */
const TALKER = `async (call) => {
  const { delegation_token } = call.body.context.gateway;
  call.emit({ type: "progress", said: [...delegation_token].reverse().join("") });
  await new Promise((done) => { call.signal.addEventListener("abort", done); setTimeout(done, 60000); });
  return { status: "cancelled" };
}`;

verifies(
  "delegation.token",
  "two gateways know a token while its call runs, and neither a second after it has ended",
  async () => {
    const [one, two] = gateways as [TestGateway, TestGateway];
    const folder = writePluginFolder({
      package_id: "acme/talker",
      entrypoint: ["node", "./bin/plugin.mjs"],
      files: { "bin/plugin.mjs": vaiProgram("acme/talker", TALKER) },
      exports: [
        {
          id: "talker",
          default_timeout_ms: 60_000,
          extra: '[exports.permissions]\ngateway_api_scopes = ["sessions:read"]',
        },
      ],
    });
    await installAndBind(one, folder, ["talker"]);
    await one.http("POST", "/v1/sessions", { session_id: "shown" });
    const { body } = await one.http<{ id: string }>("POST", "/v1/invocations", { export_id: "talker" });
    let token = "";
    const events = await fetch(`${one.url}/v1/invocations/${body.id}/events`, {
      headers: { authorization: `Bearer ${one.token}` },
    });
    const reader = events.body!.getReader();
    for (let text = ""; token === ""; ) {
      text += Buffer.from((await reader.read()).value!).toString();
      const said = /"said":"([^"]+_gld_iav)"/.exec(text)?.[1];
      if (said !== undefined) token = said.split("").reverse().join("");
    }
    await reader.cancel();
    const authorization = `Bearer ${token}`;
    const status = async (gateway: TestGateway, path: string) =>
      (await gateway.http("GET", path, undefined, { authorization })).status;
    for (const gateway of [one, two]) {
      expect(await status(gateway, "/v1/sessions/shown")).toBe(200);
      expect(await status(gateway, "/v1/chains?session_id=shown")).toBe(403);
      expect(await status(gateway, "/v1/secrets")).toBe(403);
    }
    // A stream at the gateway that does not run the call.
    const stream = await fetch(`${two.url}/v1/sessions/shown/events`, { headers: { authorization } });
    expect(stream.status).toBe(200);
    const ended = stream.text().then(() => performance.now());

    await one.http("POST", `/v1/invocations/${body.id}:cancel`);
    await eventually(
      async () =>
        (await one.http<{ status: string }>("GET", `/v1/invocations/${body.id}`)).body.status === "cancelled",
      20_000,
      "the call has ended",
    );
    const since = performance.now();
    for (const gateway of [one, two]) expect(await status(gateway, "/v1/sessions/shown")).toBe(401);
    expect((await ended) - since).toBeLessThan(1_000);
  },
  60_000,
);
