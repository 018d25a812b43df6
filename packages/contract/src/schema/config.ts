/** The live configuration in `/api/config`. The value of a secret key is masked unless `show` is requested. */
import { z } from "zod";
import { CONFIG_KEY_PATTERN, configPrefixOf, isConfigKey } from "../vocabulary/config-key.ts";
import { CONFIG_LIMITS } from "../vocabulary/limits.ts";
import { JsonValueSchema } from "./scalars.ts";

const KEY_FORMAT = "write dotted segments of letters, digits, _ and -, such as plugin.llm_openai.base_url";

export const ConfigKeySchema = z.string().max(CONFIG_LIMITS.key_length).regex(CONFIG_KEY_PATTERN, KEY_FORMAT);

/** A key, or a prefix that selects every key below it: `providers.prod.*`. */
export const ConfigKeyPatternSchema = z
  .string()
  .max(CONFIG_LIMITS.key_length + 2)
  .refine((text) => isConfigKey(text) || configPrefixOf(text) !== null, KEY_FORMAT);

export const ConfigEntrySchema = z.object({ key: z.string(), value: JsonValueSchema });
export const ConfigMapSchema = z.record(z.string(), JsonValueSchema);
export const ConfigPatchSchema = z.strictObject({ value: JsonValueSchema });
export const ConfigWrittenSchema = z.object({
  key: z.string(),
  ok: z.literal(true),
  dropped: z
    .array(z.string())
    .optional()
    .describe(
      "Secret keys that were removed because the address or plugin that they belonged to has changed.",
    ),
});
export const ConfigRemovedSchema = z.object({ key: z.string(), removed: z.boolean() });

/** The payload of `config.updated`, one event for every key that was written or removed. */
export const ConfigUpdatedSchema = z.object({
  key: z.string(),
  prefix_match_hint: z
    .string()
    .describe("The key up to and including its last dot; empty if the key has no dot."),
});

export type ConfigEntry = z.infer<typeof ConfigEntrySchema>;
export type ConfigMap = z.infer<typeof ConfigMapSchema>;
export type ConfigWritten = z.infer<typeof ConfigWrittenSchema>;
export type ConfigRemoved = z.infer<typeof ConfigRemovedSchema>;
export type ConfigUpdated = z.infer<typeof ConfigUpdatedSchema>;
