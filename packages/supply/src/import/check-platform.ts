/** A package that names its platforms is refused elsewhere (pkg.platform). */
import { BackplaneError, type Manifest } from "@backplane/contract";

export interface HostPlatform {
  os: "linux" | "darwin" | "windows";
  arch: "amd64" | "arm64";
}

export function checkPlatform({ runtime }: Manifest, host: HostPlatform): void {
  const { os, arch } = runtime;
  const fits = (os === undefined || os.includes(host.os)) && (arch === undefined || arch.includes(host.arch));
  if (fits) return;
  const supported = (os ?? ["any"]).flatMap((system) => (arch ?? ["any"]).map((cpu) => `${system}/${cpu}`));
  throw new BackplaneError(
    "package.platform",
    `The package does not run on ${host.os}/${host.arch}; it supports ${supported.join(", ")}.`,
    { details: { host: `${host.os}/${host.arch}`, supported } },
  );
}
