/** The schemas and the codec must accept the examples of the published protocol description. */
import { readFileSync } from "node:fs";
import type { JsonObject } from "@backplane/contract";
import {
  BindingCreateSchema,
  BindingSchema,
  ContextSchema,
  VaiCancelSchema,
  VaiErrorResponseSchema,
  VaiEventSchema,
  VaiHostHelloSchema,
  VaiOkResponseSchema,
  VaiPluginHelloSchema,
  VaiRequestSchema,
  VaiShutdownSchema,
} from "@backplane/contract/schema";
import { grantWith } from "@backplane/test-kit/grant-with";
import { expect, test } from "vitest";
import { ContentLengthDecoder, encodeContentLength, frameLimits } from "../../src/index.ts";

const FILE = new URL("../../../../test/fixtures/published/vai-frames.txt", import.meta.url);

const FRAMES = readFileSync(FILE, "utf8")
  .split(/^--- /m)
  .slice(1)
  .map((part) => {
    const [title = "", ...lines] = part.split("\n");
    return { title, value: JSON.parse(lines.join("\n")) as JsonObject };
  });

const SCHEMAS = {
  Context: ContextSchema,
  VaiCancel: VaiCancelSchema,
  VaiErrorResponse: VaiErrorResponseSchema,
  VaiEvent: VaiEventSchema,
  VaiHostHello: VaiHostHelloSchema,
  VaiOkResponse: VaiOkResponseSchema,
  VaiPluginHello: VaiPluginHelloSchema,
  VaiRequest: VaiRequestSchema,
  VaiShutdown: VaiShutdownSchema,
};

const find = (wanted: string) => FRAMES.find(({ title }) => title === wanted)!.value;

/** Fills in the context, which the examples abbreviate to dots, and the bodies that the most general examples leave empty. */
function complete({ title, value }: (typeof FRAMES)[number]): JsonObject {
  const context = { ...find("Context"), config: {}, secrets: {}, grant: grantWith({}) } as JsonObject;
  if (title === "Context") return context;
  if (title === "VaiRequest") return { ...value, body: { export_id: "jira_search", context } };
  if (title === "VaiOkResponse") return { ...value, body: { status: "succeeded" } };
  return title.startsWith("VaiRequest") ? { ...value, body: { ...(value.body as object), context } } : value;
}

test("the published description has 18 examples", () => {
  expect(FRAMES).toHaveLength(18);
});

for (const published of FRAMES.filter(({ title }) => title !== "Binding")) {
  const { title } = published;
  test(`accepts the published ${title}`, () => {
    const frame = complete(published);
    const schema = SCHEMAS[title.split(" ")[0] as keyof typeof SCHEMAS];
    expect(schema.safeParse(frame).error?.issues ?? []).toEqual([]);
    const decoded: JsonObject[] = [];
    const decoder = new ContentLengthDecoder(
      frameLimits(),
      (frame) => decoded.push(frame),
      (error) => expect.fail(String(error)),
    );
    decoder.push(Buffer.from(encodeContentLength(frame)));
    expect(decoded).toEqual([frame]);
  });
}

test("a binding has every field of the published record and can be created from it", () => {
  const value = find("Binding");
  expect(Object.keys(BindingSchema.shape)).toEqual(expect.arrayContaining(Object.keys(value)));
  const { binding_id: _id, scope: _scope, ...body } = value;
  expect(BindingCreateSchema.safeParse(body).error?.issues ?? []).toEqual([]);
});
