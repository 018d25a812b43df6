/** A bound instrument plugin, as shown to the admin. */
import { z } from "zod";
import {
  EXECUTION_CLASSES,
  INSTRUMENT_HEALTH_STATUSES,
  ISOLATION_MODES,
  RISKS,
} from "../vocabulary/vocabulary.ts";
import { JsonObjectSchema, TimestampSchema } from "./scalars.ts";

export const InstrumentPluginSchema = z.object({
  plugin_id: z.string(),
  name: z.string(),
  version: z.string(),
  author: z.string(),
  isolation: z.enum(ISOLATION_MODES),
  dependencies: z.array(z.string()),
  package_id: z.string(),
  binding_id: z.string(),
  class: z.enum(EXECUTION_CLASSES),
  /** `discovered`: the plugin has not described its instruments yet. `skipped`: see `error`. */
  state: z.enum(["discovered", "skipped", "running"]),
  error: z.object({ code: z.string(), message: z.string(), fix: z.string().optional() }).nullable(),
  warnings: z.array(z.string()),
  instruments: z.array(
    z.object({
      name: z.string(),
      description: z.string(),
      /** Always `plugin:<id>`; the plugin's own value is ignored. */
      origin: z.string(),
      risk: z.enum(RISKS),
      category: z.string().nullable(),
    }),
  ),
});

export const InstrumentHealthReportSchema = z.object({
  plugin_id: z.string(),
  binding_id: z.string(),
  /** Null for the whole plugin, if it is not available. */
  instrument: z.string().nullable(),
  /** An instrument without healthCheck is Healthy. Unknown means that its plugin is not running and was not started. */
  status: z.enum([...INSTRUMENT_HEALTH_STATUSES, "Unknown"]),
  /** When the plugin last listed its instruments; null if never. */
  seen_at: TimestampSchema.nullable(),
  message: z.string().nullable(),
});

export const InstrumentInstallSchema = z.strictObject({
  path: z.string().min(1).max(4096).describe("a folder, zip or jar on the gateway's machine"),
  config: JsonObjectSchema.optional(),
  class: z.enum(EXECUTION_CLASSES).optional(),
});

export type InstrumentPluginView = z.infer<typeof InstrumentPluginSchema>;
export type InstrumentHealthReport = z.infer<typeof InstrumentHealthReportSchema>;
export type InstrumentInstall = z.infer<typeof InstrumentInstallSchema>;
