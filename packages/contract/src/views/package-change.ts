/** One difference between two versions of a package, as shown before an upgrade. */
export interface PackageChange {
  /** A whole sentence. */
  text: string;
  /** True if the plugin can do more, fewer calls need approval, or its origin is different or no longer verified. */
  riskier: boolean;
}

export function neutralChange(text: string): PackageChange {
  return { text, riskier: false };
}

export function riskierChange(text: string): PackageChange {
  return { text, riskier: true };
}
