import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type OpenApi, renderApiReference } from "../scripts/api-doc.ts";
import { startTestGateway, type TestGateway } from "./support/gateway/gateway.ts";

let gateway: TestGateway;
beforeAll(async () => {
  gateway = await startTestGateway();
});
afterAll(async () => {
  await gateway?.dispose();
});

test("docs/api.md describes the routes and objects of a running gateway (npm run docs:api writes it)", async () => {
  const { body } = await gateway.http<OpenApi>("GET", "/openapi.json");
  expect(renderApiReference(body)).toBe(readFileSync("docs/api.md", "utf8"));
});
