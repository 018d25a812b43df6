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

const DESTINATION_SEGMENT =
  /(?:url|uri|endpoint|hostname|address|proxy)$|(?:^|[_-])(?:host|port|base|server|domain|region|plugin)$/i;

/**
 * With a scheme, in a text or anywhere in a JSON value. The scheme is bounded: without a bound the search takes the square
 * of the length of a long word, and it runs in the store's writer thread.
 */
const ADDRESS = /[a-z][a-z0-9+.-]{0,31}:\/\//i;

/**
 * Whether the value says where requests go, and so where the secrets beside it are sent: by the name of its key, or
 * because there is an address in it. `value` is JSON.
 */
export function isDestinationConfig(key: string, value: string): boolean {
  return DESTINATION_SEGMENT.test(key.slice(key.lastIndexOf(".") + 1)) || ADDRESS.test(value);
}

/** Keys of one group belong to one instance or plugin: `providers.<id>.`, `plugin.<ns>.`, `acme.`; null for a bare key. */
export function configGroupOf(key: string): string | null {
  const segments = key.split(".");
  if (segments.length === 1) return null;
  return `${segments.slice(0, segments.length === 2 ? 1 : 2).join(".")}.`;
}
