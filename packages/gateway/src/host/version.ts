/** The version that the gateway reports. Each release changes it together with the version in package.json. */
export const VERSION = "0.1.0";
