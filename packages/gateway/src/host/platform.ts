/** The platform in the terms of package manifests. */

export function hostOs(): "linux" | "darwin" | "windows" {
  return process.platform === "win32" ? "windows" : process.platform === "darwin" ? "darwin" : "linux";
}

export function hostArch(): "amd64" | "arm64" {
  return process.arch === "arm64" ? "arm64" : "amd64";
}
