use belljar::*;
use std::time::{Duration, Instant};
fn med(mut v: Vec<Duration>) -> Duration { v.sort(); v[v.len()/2] }
#[tokio::main]
async fn main() {
    let rt = Runtime::builder().build().unwrap();
    for (image, init) in [("core","x=1"), ("data", "import pandas as pd, numpy as np\ndf = pd.DataFrame({'a':[1,2,3]})\nprint(df.describe())"), ("data", "import pandas as pd, numpy as np\ndf = pd.DataFrame({'a':[1,2,3]})\nprint(df.describe())\nbig = np.random.rand(20*1024*1024//8)")] {
        let t = Instant::now();
        let s = rt.session(SessionOptions::new().image(image).init_code(init)).await.unwrap();
        println!("== {image}: create {:?}", t.elapsed());
        let mut v = vec![]; let mut w = vec![];
        for _ in 0..300 { let t = Instant::now(); let o = s.run(Request::new("x = 1")).await.unwrap(); assert!(o.success); v.push(t.elapsed()); w.push(Duration::from_secs_f64(o.usage.wall_ms/1e3)); }
        println!("x=1: {:?}, run alone {:?}", med(v), med(w));
        let mut v = vec![];
        let mut f2 = vec![];
        for _ in 0..50 { let t = Instant::now(); let f = s.fork().await.unwrap(); f2.push(t.elapsed()); let o = f.run(Request::new("x = 2")).await.unwrap(); assert!(o.success); v.push(t.elapsed()); f.close(); }
        println!("fork {:?}, fork+run {:?}", med(f2), med(v));
        let dir = tempfile::tempdir().unwrap(); let p = dir.path().join("c");
        let mut v = vec![];
        for _ in 0..20 { let t = Instant::now(); s.checkpoint(&p).await.unwrap(); v.push(t.elapsed()); }
        println!("checkpoint {:?} size {}", med(v), std::fs::metadata(&p).unwrap().len());
        let mut v = vec![];
        for _ in 0..20 { let t = Instant::now(); let r = rt.restore(&p).await.unwrap(); let o = r.run(Request::new("x = 2")).await.unwrap(); assert!(o.success); v.push(t.elapsed()); r.close(); }
        println!("restore+run {:?}", med(v));
        let e = s.execution().await;
        let mut v = vec![];
        for _ in 0..20 { let t = Instant::now(); s.rewind(e-3).await.unwrap(); let o = s.run(Request::new("x = 2")).await.unwrap(); v.push(t.elapsed()); assert!(o.success);  s.run(Request::new("x = 2")).await.unwrap(); s.run(Request::new("x = 2")).await.unwrap();}
        println!("rewind+run {:?}", med(v));
        let mut v = vec![];
        for _ in 0..20 { let t = Instant::now(); assert!(s.suspend().await); v.push(t.elapsed()); let o = s.run(Request::new("x = 2")).await.unwrap(); assert!(o.success);}
        println!("suspend {:?}", med(v));
        s.close();
    }
}
