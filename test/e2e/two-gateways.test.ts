/** Two gateways on one PostgreSQL are one system: limits hold across them, and across a restart. */
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect } from "vitest";
import { startTestGateway, type TestGateway } from "../support/gateway.ts";
import { installAndBind, vaiProgram, writePluginFolder } from "../support/plugin-folder.ts";
import { startPostgres, type TestPostgres } from "../support/postgres.ts";
import { type SharedFolder, shareFolder } from "../support/shared-folder.ts";
import { verifies } from "../support/verifies.ts";

let postgres: TestPostgres;
let shared: SharedFolder;
const gateways: TestGateway[] = [];
beforeAll(async () => {
  postgres = await startPostgres();
  shared = shareFolder("calls.log");
});
afterAll(async () => {
  for (const gateway of gateways) await gateway.dispose();
  await postgres.stop();
  shared.remove();
});

const start = async () => {
  const gateway = await startTestGateway({ env: { BACKPLANE_STORE_URL: postgres.url } });
  gateways.push(gateway);
  return gateway;
};

/** The most calls that were inside the plugin at one time, from its own log of entries and exits. */
function mostAtOnce(log: string): { most: number; calls: number } {
  const lines = readFileSync(log, "utf8").trim().split("\n");
  let now = 0;
  let most = 0;
  for (const line of lines) {
    now += line === "in" ? 1 : -1;
    most = Math.max(most, now);
  }
  return { most, calls: lines.filter((line) => line === "in").length };
}

verifies(
  "bind.concurrency",
  "max_concurrency holds over two gateways, excess waits, and a full queue is answered 429",
  async () => {
    const [one, two] = [await start(), await start()];
    const folder = writePluginFolder({
      package_id: "acme/limited",
      entrypoint: ["node", "./bin/plugin.mjs"],
      files: {
        "bin/plugin.mjs": vaiProgram(
          "acme/limited",
          `async (call) => {
            appendFileSync(call.body.input.log, "in\\n");
            await new Promise((done) => setTimeout(done, 60));
            appendFileSync(call.body.input.log, "out\\n");
            return { status: "succeeded", result: { content: [] } };
          }`,
        ),
      },
      // Without the canary: each home seals with a key of its own, and the other cannot open it.
      exports: [{ id: "limited", max_concurrency: 3, default_timeout_ms: 60_000, extra: "" }],
    });
    // Both gateways confine it; the one thing of this machine that it sees is the folder of the log.
    await installAndBind(one, folder, ["limited"], { class: "worker", mounts: [shared.mount] });
    await two.http("POST", "/v1/plugin-packages", { source: { folder } });
    const call = (gateway: TestGateway, query: string) =>
      gateway.http<{ status: string }>("POST", `/v1/invocations${query}`, {
        export_id: "limited",
        input: { log: shared.inside("calls.log") },
      });
    const answers = await Promise.all(
      Array.from({ length: 40 }, (_, i) => call(i % 2 === 0 ? one : two, "?wait=50")),
    );
    expect(answers.map((answer) => answer.body.status)).toEqual(
      Array.from({ length: 40 }, () => "succeeded"),
    );
    expect(mostAtOnce(shared.outside("calls.log"))).toEqual({ most: 3, calls: 40 });

    // One gateway alone takes 3 + 100; what comes on top is refused at once, and says when to come back.
    const burst = await Promise.all(Array.from({ length: 140 }, () => call(one, "")));
    const refused = burst.filter((answer) => answer.status === 429);
    expect(refused.length).toBeGreaterThan(20);
    expect(refused[0]!.headers.get("retry-after")).toMatch(/^\d+$/);
    expect(refused[0]!.body).toMatchObject({ error: { code: "invocation.queue_full", retryable: true } });
    expect(burst.filter((answer) => answer.status === 202).length).toBeGreaterThanOrEqual(100);
  },
  90_000,
);
