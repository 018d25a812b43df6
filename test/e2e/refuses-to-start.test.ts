/** A gateway that cannot run safely refuses to start and reports what to do. */
import { mkdtempSync, rmSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { cleanEnvironment, runCli, startTestGateway, type TestGateway } from "../support/gateway/gateway.ts";
import { verifies } from "../support/verifies.ts";

const home = mkdtempSync(join(tmpdir(), "backplane-refuse-"));
let gateway: TestGateway;
beforeAll(async () => {
  gateway = await startTestGateway({ env: { BACKPLANE_STORE_URI: "postgres://db/x" } });
});
afterAll(async () => {
  await gateway.dispose();
  rmSync(home, { recursive: true, force: true });
});

const up = (...flags: string[]) =>
  runCli(["up", "--port", "0", ...flags], cleanEnvironment({ BACKPLANE_HOME: home }));

verifies("webapi.auth", "refuses to listen beyond loopback without TLS or an explicit flag", async () => {
  const { code, stderr, stdout } = await up("--host", "0.0.0.0");
  expect(code).not.toBe(0);
  expect(stdout).toBe("");
  expect(stderr).toContain("error[listen.unsafe]");
  expect(stderr).toContain("--insecure-listen");
});

test("listens with the flag and still refuses a foreign Host", async () => {
  const open = await startTestGateway({ env: { BACKPLANE_HOST: "0.0.0.0", BACKPLANE_INSECURE_LISTEN: "1" } });
  try {
    const { port } = new URL(open.url);
    const statusFor = (host: string) =>
      new Promise((resolve, reject) => {
        const request_to_gateway = request(
          { host: "127.0.0.1", port, path: "/v1/status", headers: { host } },
          (response) => {
            response.resume();
            resolve(response.statusCode);
          },
        );
        request_to_gateway.on("error", reject).end();
      });
    expect(await statusFor(`127.0.0.1:${port}`)).toBe(401);
    expect(await statusFor("rebound.example")).toBe(403);
  } finally {
    await open.dispose();
  }
});

test("warns about a variable that is not one of its settings", () => {
  expect(gateway.log()).toContain('"variable":"BACKPLANE_STORE_URI"');
});

test("refuses a second gateway on the same home", async () => {
  const second = await runCli(["up", "--port", "0"], cleanEnvironment({ BACKPLANE_HOME: gateway.home }));
  expect(second.code).not.toBe(0);
  expect(second.stderr).toContain("error[home.locked]");
  expect((await gateway.http("GET", "/v1/status")).status).toBe(200);
});

test("names the key of an invalid configuration", async () => {
  const bad = await runCli(["up"], cleanEnvironment({ BACKPLANE_HOME: home, BACKPLANE_PORT: "70000" }));
  expect(bad.code).not.toBe(0);
  expect(bad.stderr).toContain("error[config.invalid]");
  expect(bad.stderr).toContain("listen.port");
});

test("names a port in use and releases its locks", async () => {
  const { port } = new URL(gateway.url);
  const taken = await runCli(["up", "--port", port], cleanEnvironment({ BACKPLANE_HOME: home }));
  expect(taken.code).not.toBe(0);
  expect(taken.stderr).toContain("Another program is already listening");
  const free = await startTestGateway({ home });
  expect((await free.http("GET", "/v1/status")).status).toBe(200);
  await free.stop();
});
