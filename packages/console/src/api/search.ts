/** The search parameters of the URL: plain strings, so that a link is readable and can be typed by hand. */

export function parseSearch(search: string): Record<string, string> {
  return Object.fromEntries(new URLSearchParams(search));
}

export function stringifySearch(values: Record<string, unknown>): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(values))
    if (typeof value === "string" && value !== "") params.set(name, value);
  return params.size === 0 ? "" : `?${params.toString()}`;
}
