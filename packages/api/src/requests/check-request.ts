import { BackplaneError } from "@backplane/contract";
import type { z } from "zod";

export type RequestPart = "params" | "query" | "body" | "header";

/** Validates one part of a request against its schema. The error lists every issue with its path. */
export function checkRequest(schema: z.ZodType, part: RequestPart, value: unknown): unknown {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const issues = parsed.error.issues.map((issue) => ({
    path: [part, ...issue.path.map(String)].join("."),
    message: issue.message,
  }));
  const first = issues[0];
  throw new BackplaneError(
    "request.invalid",
    first ? `${first.path}: ${first.message}` : "The request does not match its schema.",
    { details: { issues } },
  );
}
