/** The registries of the operator's npm configuration, and the proxy for each of them. */
export interface NpmSettings {
  /** The origins of the default registry and of the registries of scopes. */
  origins: ReadonlySet<string>;
  /** The operator's proxy for an origin; null for a direct connection. */
  upstream: (origin: string) => URL | null;
  /** The registry of a package. */
  registryOf: (name: string) => URL;
}

/** `json` is the output of `npm config list --json`. */
export function readNpmSettings(json: string): NpmSettings {
  const config = JSON.parse(json) as Record<string, unknown>;
  const registries = Object.entries(config).filter(
    ([key]) => key === "registry" || /^@.+:registry$/.test(key),
  );
  const origins = new Set(registries.flatMap(([, value]) => urlOf(value)?.origin ?? []));
  const [http, https] = [urlOf(config.proxy), urlOf(config["https-proxy"] ?? config.proxy)];
  const direct_hosts = [config.noproxy]
    .flat()
    .flatMap((entry) =>
      typeof entry === "string" ? entry.split(",").map((name) => name.trim().replace(/^\*?\./, "")) : [],
    );
  return {
    origins,
    registryOf(name) {
      const scope = name.startsWith("@") ? name.split("/", 1)[0]! : null;
      return (
        (scope === null ? null : urlOf(config[`${scope}:registry`])) ??
        urlOf(config.registry) ??
        new URL("https://registry.npmjs.org/")
      );
    },
    upstream(origin) {
      const { hostname, protocol } = new URL(origin);
      const bypasses_proxy = direct_hosts.some(
        (name) => name !== "" && (name === "*" || hostname === name || hostname.endsWith(`.${name}`)),
      );
      return bypasses_proxy ? null : protocol === "https:" ? https : http;
    },
  };
}

function urlOf(value: unknown): URL | null {
  return typeof value === "string" && URL.canParse(value) ? new URL(value) : null;
}
