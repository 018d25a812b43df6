/** Properties of a configuration value that follow from its key. Without zod, because the CLI imports it. */
import { CONFIG_LIMITS } from "./limits.ts";

/** Dotted segments of letters, digits, _ and -. Segments become property names, so none may reach a prototype. */
export const CONFIG_KEY_PATTERN = /^(?!(.*\.)?__proto__(\.|$))[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$/;

const SECRET_SEGMENT = /(^|_)(api_key|token|secret|password)$/i;

export function isConfigKey(key: string): boolean {
  return key.length <= CONFIG_LIMITS.key_length && CONFIG_KEY_PATTERN.test(key);
}

/** Whether the value is masked when read and sealed at rest (config.mask). */
export function isSecretConfigKey(key: string): boolean {
  return SECRET_SEGMENT.test(key.slice(key.lastIndexOf(".") + 1));
}

/** The prefix `a.b.` of a pattern `a.b.*`, which matches every key below `a.b`; null for any other text. */
export function configPrefixOf(pattern: string): string | null {
  if (!pattern.endsWith(".*")) return null;
  return isConfigKey(pattern.slice(0, -2)) ? pattern.slice(0, -1) : null;
}

const DESTINATION_SEGMENT =
  /(?:url|uri|endpoint|hostname|address|proxy)$|(?:^|[_-])(?:host|port|base|server|domain|region|plugin)$/i;

const SCHEME_AT_END = /[a-z][a-z0-9+.-]*$/i;
const MAX_SCHEME = 32;

/**
 * Whether the value determines where requests, and the secrets of the same group, are sent: by the name of its key, or
 * because it contains a URL. `value` is JSON.
 */
export function isDestinationConfig(key: string, value: string): boolean {
  return DESTINATION_SEGMENT.test(key.slice(key.lastIndexOf(".") + 1)) || containsUrl(value);
}

/**
 * Whether a URL with a scheme is anywhere in the text. Searches for the separator first and bounds the scheme, because
 * this runs in the store's writer thread, even for values of many kilobytes.
 */
function containsUrl(text: string): boolean {
  for (let at = text.indexOf("://"); at !== -1; at = text.indexOf("://", at + 1)) {
    if (SCHEME_AT_END.test(text.slice(Math.max(0, at - MAX_SCHEME), at))) return true;
  }
  return false;
}

/** The group of one instance or plugin: `providers.<id>.`, `plugin.<ns>.`, `acme.`; null for a key without a dot. */
export function configGroupOf(key: string): string | null {
  const segments = key.split(".");
  if (segments.length === 1) return null;
  return `${segments.slice(0, segments.length === 2 ? 1 : 2).join(".")}.`;
}
