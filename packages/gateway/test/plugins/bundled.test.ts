import { readdirSync } from "node:fs";
import { resolve } from "node:path";
import { expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { request, startTestGateway } from "../support/gateway.ts";

const BUNDLED_ROOTS = readdirSync("plugins").map((name) => resolve("plugins", name));

verifies(
  "plug.discovery",
  "starts when any single bundled plugin is missing; with none, starts and rejects a run by naming the missing strategy",
  async () => {
    for (const omitted of BUNDLED_ROOTS) {
      const gateway = await startTestGateway(BUNDLED_ROOTS.filter((root) => root !== omitted));
      expect((await request(gateway, "GET", "/readyz")).status).toBe(200);
      const { items } = (await request(gateway, "GET", "/v1/plugins")).body as unknown as {
        items: { name: string; status: string }[];
      };
      expect(items).toHaveLength(BUNDLED_ROOTS.length - 1);
      expect(items.filter(({ status }) => status !== "loaded")).toEqual([]);
    }
    const gateway = await startTestGateway([]);
    const run = await request(gateway, "POST", "/v1/runs", { session_id: "s", input: { text: "hello" } });
    expect(run.body.error).toMatchObject({
      code: "request.invalid",
      message: expect.stringContaining("react"),
    });
  },
  60_000,
);
