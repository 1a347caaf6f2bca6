use belljar::*;
use std::time::Instant;
#[tokio::main]
async fn main() {
    let rt = Runtime::builder().build().unwrap();
    let s = rt.session(SessionOptions::new().image("data").init_code("import pandas as pd, numpy as np\ndf = pd.DataFrame({'a':[1,2,3]})\nprint(df.describe())\ndel df")).await.unwrap();
    let mode = std::env::args().nth(1).unwrap();
    let n = 600;
    let t = Instant::now();
    for _ in 0..n {
        if mode == "fork" { let f = s.fork().await.unwrap(); f.run(Request::new("x = 2")).await.unwrap(); f.close(); }
        else { s.run(Request::new("x = 1")).await.unwrap(); }
    }
    println!("{mode} {:?}", t.elapsed() / n);
}
