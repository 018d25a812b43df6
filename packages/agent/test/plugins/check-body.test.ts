import { codeOf } from "@backplane/contract";
import { createSchemas } from "@backplane/supply";
import { afterAll, expect, test } from "vitest";
import { checkBody } from "../../src/plugins/adapters.ts";

const schemas = createSchemas();
afterAll(() => schemas.close());

const mount = (body?: object) =>
  ({
    method: "POST",
    path: "/a",
    mounted: "/x/p/a",
    plugin: "p",
    summary: "",
    scope: "sessions:write",
    ...(body === undefined ? {} : { body }),
  }) as Parameters<typeof checkBody>[1];

const days = { type: "object", properties: { days: { type: "integer" } }, required: ["days"] };

test("a body is held against what the adapter says of it, and every issue names its place", async () => {
  await checkBody(schemas, mount(days), { days: 3 });
  const refused = await checkBody(schemas, mount(days), { days: "many" }).catch((error: unknown) => error);
  expect(codeOf(refused)).toBe("request.invalid");
  expect(refused).toMatchObject({ details: { issues: [{ path: "body.days" }] } });
  for (const body of [null, {}, [], "days"])
    await expect(checkBody(schemas, mount(days), body)).rejects.toMatchObject({ code: "request.invalid" });
});

test("the same route with another schema is another check", async () => {
  const text = { ...days, properties: { days: { type: "string" } } };
  await checkBody(schemas, mount(text), { days: "many" });
  await expect(checkBody(schemas, mount(days), { days: "many" })).rejects.toThrow();
});

test("without a schema anything goes to the adapter", async () => {
  await expect(checkBody(schemas, mount(), null)).resolves.toBeUndefined();
  await expect(checkBody(undefined, mount(days), null)).resolves.toBeUndefined();
});
