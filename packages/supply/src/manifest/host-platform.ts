/** The platform of this machine, as manifests name it. */
export interface HostPlatform {
  os: "linux" | "darwin" | "windows";
  arch: "amd64" | "arm64";
}
