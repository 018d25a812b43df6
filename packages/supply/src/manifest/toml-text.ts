/** Formats `key = value` lines. Strings and lists of strings have the same syntax in TOML and in JSON. */
export function formatTomlLines(values: object): string[] {
  return Object.entries(values).map(([key, value]) => `${key} = ${JSON.stringify(value)}`);
}
