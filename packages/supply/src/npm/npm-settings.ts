/** The registries of the operator's npm configuration, and the proxy for each of them. */
export interface NpmSettings {
  /** The origins of the default registry and of the registries of scopes. */
  origins: ReadonlySet<string>;
  upstream: (origin: string) => URL | null;
  /** The registry of a package. */
  registryOf: (name: string) => URL;
}

/** `json` is the output of `npm config list --json`. */
export function readNpmSettings(json: string): NpmSettings {
  const all = JSON.parse(json) as Record<string, unknown>;
  const registries = Object.entries(all).filter(([key]) => key === "registry" || /^@.+:registry$/.test(key));
  const origins = new Set(registries.flatMap(([, value]) => urlOf(value)?.origin ?? []));
  const [http, https] = [urlOf(all.proxy), urlOf(all["https-proxy"] ?? all.proxy)];
  const direct = [all.noproxy]
    .flat()
    .flatMap((entry) =>
      typeof entry === "string" ? entry.split(",").map((name) => name.trim().replace(/^\*?\./, "")) : [],
    );
  return {
    origins,
    registryOf(name) {
      const scope = name.startsWith("@") ? name.split("/", 1)[0]! : null;
      return (
        (scope === null ? null : urlOf(all[`${scope}:registry`])) ??
        urlOf(all.registry) ??
        new URL("https://registry.npmjs.org/")
      );
    },
    upstream(origin) {
      const { hostname, protocol } = new URL(origin);
      const without = direct.some(
        (name) => name !== "" && (name === "*" || hostname === name || hostname.endsWith(`.${name}`)),
      );
      return without ? null : protocol === "https:" ? https : http;
    },
  };
}

function urlOf(value: unknown): URL | null {
  return typeof value === "string" && URL.canParse(value) ? new URL(value) : null;
}
