/**
 * strict is the document for a terminal under a content security policy that lets nothing be styled by text: what xterm.js
 * writes into <style> elements goes into style sheets that scripts own, and what it writes into style attributes into the same
 * properties. Both are allowed. remove takes the sheets off the page.
 */
export function strict(): { document: Document; remove: () => void } {
  const sheets: CSSStyleSheet[] = [];
  const styled = () => {
    const sheet = new CSSStyleSheet();
    sheets.push(sheet);
    document.adoptedStyleSheets.push(sheet);
    const place = document.createElement("template");
    Object.defineProperty(place, "textContent", { set: (css: string) => sheet.replaceSync(css) });
    place.remove = () => sheet.replaceSync("");
    return place;
  };
  const createElement = (name: string) => {
    if (name === "style") return styled();
    const element = document.createElement(name);
    element.setAttribute = (attribute, value) => {
      if (attribute === "style") element.style.cssText = value;
      else Element.prototype.setAttribute.call(element, attribute, value);
    };
    return element;
  };
  return {
    document: new Proxy(document, {
      get: (target, key) => {
        if (key === "createElement") return createElement;
        const value: unknown = Reflect.get(target, key, target);
        return typeof value === "function" ? value.bind(target) : value;
      },
    }),
    remove: () => {
      document.adoptedStyleSheets = document.adoptedStyleSheets.filter((sheet) => !sheets.includes(sheet));
    },
  };
}
