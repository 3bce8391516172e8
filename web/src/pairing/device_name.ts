/** A first name for this device, made from what the browser says about itself. */
import { words } from "../words";

const BROWSERS: [RegExp, string][] = [[/Edg\//, "Edge"], [/OPR\//, "Opera"], [/Firefox\/|FxiOS/, "Firefox"], [/Chrome\/|CriOS/, "Chrome"], [/Safari\//, "Safari"]];
const SYSTEMS: [RegExp, string][] = [[/iPhone/, "iPhone"], [/iPad/, "iPad"], [/Android/, "Android"], [/Mac OS X/, "macOS"], [/Windows/, "Windows"], [/CrOS/, "ChromeOS"], [/Linux/, "Linux"]];

export function deviceName(agent: string): string {
  const browser = BROWSERS.find(([sign]) => sign.test(agent))?.[1];
  const system = SYSTEMS.find(([sign]) => sign.test(agent))?.[1];
  return browser !== undefined && system !== undefined ? words.pairing.browser(browser, system) : words.pairing.thisBrowser;
}

/** Whether a text about a device is that of a phone. */
export function isPhoneName(text: string): boolean {
  return /iPhone|iPad|Android|iOS|phone/i.test(text);
}
