/** The marketplace section of the configuration: catalogs of curated entries and a registry of public MCP servers. */
import { z } from "zod";

const LOOPBACK = /^http:\/\/(?:127\.0\.0\.1|\[::1\]|localhost)(?::\d{1,5})?(?:\/|$)/;
const WebSchema = z
  .string()
  .max(512)
  .refine(
    (text) => URL.canParse(text) && (text.startsWith("https://") || LOOPBACK.test(text)),
    "must be an https URL",
  );

export const MarketplaceConfigSchema = z
  .strictObject({
    /** Files and https URLs of catalogs, besides the bundled one. */
    catalogs: z
      .array(z.union([z.string().regex(/^\/./, "must be an absolute path or an https URL"), WebSchema]))
      .max(16)
      .default([]),
    /** The base URL of a registry of MCP servers, for `plugin search`. */
    mcp_registry: WebSchema.optional(),
  })
  .prefault({});
