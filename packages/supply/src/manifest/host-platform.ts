/** The platform of this machine, with the names that manifests use. */
export interface HostPlatform {
  os: "linux" | "darwin" | "windows";
  arch: "amd64" | "arm64";
}
