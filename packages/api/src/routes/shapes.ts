/** Shapes that several routes share. */
import { z } from "zod";

/** A name that somebody chose. Control characters and half characters are in no name; PostgreSQL stores no NUL. */
export const nameOf = (max: number) =>
  z
    .string()
    .max(max)
    .regex(/^[^\p{Cc}\p{Cs}]*$/u, "must not hold control characters");

export const IdParams = z.object({ id: nameOf(256).min(1) });

export const PageQuery = z.strictObject({
  limit: z.coerce.number().int().min(1).max(500).default(50).describe("Rows per page."),
  after: nameOf(256).optional().describe("`next` of the page before."),
});

export const listOf = (item: z.ZodType) => z.object({ items: z.array(item), next: z.string().nullable() });

/** Splits a checked query into the page and the filter. */
export function splitPage<Q extends { limit: number; after?: string | undefined }>(
  query: Q,
): { page: { limit: number; after?: string }; filter: Omit<Q, "limit" | "after"> } {
  const { limit, after, ...filter } = query;
  return { page: after === undefined ? { limit } : { limit, after }, filter };
}
