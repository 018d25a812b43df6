import { codeOf } from "@backplane/contract";
import { shareSchemas } from "@backplane/test-kit/shared-schemas";
import { afterAll, expect, test } from "vitest";
import { checkBody } from "../../src/plugins/adapters.ts";

const schemas = shareSchemas();
afterAll(() => schemas.close());

const createMount = (body?: object) =>
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

test("checks a body against the adapter's schema and reports the path of every issue", async () => {
  await checkBody(schemas, createMount(days), { days: 3 });
  const refused = await checkBody(schemas, createMount(days), { days: "many" }).catch(
    (error: unknown) => error,
  );
  expect(codeOf(refused)).toBe("request.invalid");
  expect(refused).toMatchObject({ details: { issues: [{ path: "body.days" }] } });
  for (const body of [null, {}, [], "days"])
    await expect(checkBody(schemas, createMount(days), body)).rejects.toMatchObject({
      code: "request.invalid",
    });
});

test("compiles a separate check when the schema of a route changes", async () => {
  const text = { ...days, properties: { days: { type: "string" } } };
  await checkBody(schemas, createMount(text), { days: "many" });
  await expect(checkBody(schemas, createMount(days), { days: "many" })).rejects.toThrow();
});

test("passes any body to an adapter without a schema", async () => {
  await expect(checkBody(schemas, createMount(), null)).resolves.toBeUndefined();
  await expect(checkBody(undefined, createMount(days), null)).resolves.toBeUndefined();
});
