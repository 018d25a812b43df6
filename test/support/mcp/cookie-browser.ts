/** The parts of a browser that a sign-in needs: it follows redirects and stores cookies per host. */
export interface CookieBrowser {
  /** Follows redirects and returns the last response. */
  open(url: string): Promise<{ status: number; text: string; url: string }>;
  /** Makes one request and returns the target of its redirect, or null. */
  step(url: string): Promise<string | null>;
  /** The Set-Cookie lines of all responses. */
  readonly set_cookie_lines: string[];
}

const MAX_REDIRECTS = 10;

export function createCookieBrowser(): CookieBrowser {
  const jar = new Map<string, Map<string, string>>();
  const set_cookie_lines: string[] = [];

  async function get(url: string): Promise<Response> {
    // As in a browser, a cookie belongs to the host, regardless of the port.
    const { hostname, pathname } = new URL(url);
    const cookies = jar.get(hostname) ?? new Map<string, string>();
    jar.set(hostname, cookies);
    const cookie = pathname.startsWith("/oauth/") ? [...cookies.values()].join("; ") : "";
    const response = await fetch(url, { redirect: "manual", headers: cookie === "" ? {} : { cookie } });
    for (const line of response.headers.getSetCookie()) {
      set_cookie_lines.push(line);
      const pair = line.slice(0, line.indexOf(";"));
      cookies.set(pair.slice(0, pair.indexOf("=")), pair);
    }
    return response;
  }

  return {
    set_cookie_lines,
    async open(url) {
      let at = url;
      for (let step = 0; step < MAX_REDIRECTS; step++) {
        const response = await get(at);
        const next = response.headers.get("location");
        if (next === null) return { status: response.status, text: await response.text(), url: at };
        at = new URL(next, at).href;
      }
      throw new Error(`${url} redirects too many times.`);
    },
    step: async (url) => (await get(url)).headers.get("location"),
  };
}
