/** What a key of the live configuration says about its value. Free of zod: the command line reads it too. */
import { CONFIG_LIMITS } from "./limits.ts";

/** Dotted segments of letters, digits, _ and -. Keys become names of objects, so none may reach a prototype. */
export const CONFIG_KEY_PATTERN = /^(?!(.*\.)?__proto__(\.|$))[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$/;

const SECRET_SEGMENT = /(^|_)(api_key|token|secret|password)$/i;

export function isConfigKey(key: string): boolean {
  return key.length <= CONFIG_LIMITS.key_length && CONFIG_KEY_PATTERN.test(key);
}

/** Whether the value is masked in every ordinary read and sealed at rest (config.mask). */
export function isSecretConfigKey(key: string): boolean {
  return SECRET_SEGMENT.test(key.slice(key.lastIndexOf(".") + 1));
}

/** `a.b.*` names every key below `a.b`; its prefix is `a.b.`. Null for what is no such pattern. */
export function configPrefixOf(pattern: string): string | null {
  if (!pattern.endsWith(".*")) return null;
  return isConfigKey(pattern.slice(0, -2)) ? pattern.slice(0, -1) : null;
}
